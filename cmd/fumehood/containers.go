package main

import "github.com/spf13/pflag"

// containerFlags are the flags of every command for the docker and podman backends.
type containerFlags struct {
	image   string
	runtime string

	keepOut bool // pull no image: clients of serve must not fill the host's disk
}

func (f *containerFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.image, "container-image", "", "default image `REF` on docker and podman (python:3.12-slim)")
	flags.StringVar(&f.runtime, "container-runtime", "", "runtime `NAME` of the container engine, such as runsc")
}
