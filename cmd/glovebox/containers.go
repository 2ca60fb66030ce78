package main

import "github.com/spf13/pflag"

// containerFlags are those of every command that concern the backends whose sandboxes are an engine's containers.
type containerFlags struct {
	image   string
	runtime string

	keepOut bool // no image is fetched: serve does not have its clients fill the host's disk
}

func (f *containerFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.image, "container-image", "", "default image `REF` on docker and podman (python:3.12-slim)")
	flags.StringVar(&f.runtime, "container-runtime", "", "runtime `NAME` of the container engine, such as runsc")
}
