package main

import "github.com/spf13/pflag"

// containerFlags are those of every command that concern the backends whose sandboxes are an engine's containers.
type containerFlags struct {
	image   string
	runtime string

	keepOut bool // no image is fetched: serve does not have its clients fill the host's disk
}

func (f *containerFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.image, "container-image", "", "on docker and podman, the image `REF` of sandboxes that name none (default python:3.12-slim)")
	flags.StringVar(&f.runtime, "container-runtime", "", "on docker and podman, the engine's runtime `NAME`, such as runsc (default the engine's own)")
}
