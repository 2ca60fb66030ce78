//go:build !unix

package terminal

import (
	"errors"
	"os"
)

// GuardCommand is the argument with which Guard starts the program.
const GuardCommand = "restore-terminal"

// Guard is not supported.
func Guard(string, *os.File) (end func(), err error) { return nil, errors.ErrUnsupported }

// RunGuard is not supported.
func RunGuard() error { return errors.ErrUnsupported }
