//go:build linux

// Command fumehood-runsc is gVisor's runsc, a kernel in user space and its launcher, built from its module.
package main

import (
	"fmt"
	"os"

	"gvisor.dev/gvisor/runsc/cli/maincli"
)

func main() {
	if err := awaitRoot(); err != nil {
		fmt.Fprintln(os.Stderr, "fumehood-runsc:", err)
		os.Exit(1)
	}
	neverSpin()
	maincli.Main()
}
