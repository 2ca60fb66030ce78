//go:build !linux

package capacity

import "github.com/fumehood-dev/fumehood/sandbox"

// measure does nothing: sandboxes run in an engine's virtual machine, which has its own size.
func measure(*sandbox.Limits) {}

// Processes is unknown, for the same reason.
func Processes() int64 { return 0 }
