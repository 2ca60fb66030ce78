//go:build !linux

package backend

import (
	"runtime"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Open makes the backends of this system. The native one is built of Linux's own walls.
func Open(Options) (*Set, error) {
	return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "choose a backend",
		Msg:  "no backend of this version works on " + runtime.GOOS + ": native needs Linux; the ones that will serve here are docker and kubernetes",
		Mend: "run glovebox on Linux, or in a Linux virtual machine"}
}
