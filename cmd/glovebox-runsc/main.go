//go:build linux

// Command glovebox-runsc is gVisor's runsc, a kernel in user space and what starts it, built from its module.
package main

import "gvisor.dev/gvisor/runsc/cli/maincli"

func main() {
	neverSpin()
	maincli.Main()
}
