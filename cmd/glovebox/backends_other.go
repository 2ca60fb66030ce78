//go:build !linux

package main

import (
	"runtime"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// backends makes the backends of this system. The native one is built of Linux's own walls.
func (a *app) backends() (list []sandbox.Backend, release func() error, err error) {
	return nil, nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "choose a backend",
		Msg:  "no backend of this version works on " + runtime.GOOS + ": native needs Linux; the ones that will serve here are docker and kubernetes",
		Mend: "run glovebox on Linux, or in a Linux virtual machine"}
}
