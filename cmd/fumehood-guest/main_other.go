//go:build !linux

// Command fumehood-guest runs inside Linux sandboxes only.
package main

import "os"

func main() {
	os.Stderr.WriteString("fumehood-guest runs on Linux only\n")
	os.Exit(1)
}
