//go:build !linux

// Command glovebox-guest runs inside Linux sandboxes only.
package main

import "os"

func main() {
	os.Stderr.WriteString("glovebox-guest runs on Linux only\n")
	os.Exit(1)
}
