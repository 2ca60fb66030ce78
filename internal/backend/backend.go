// Package backend is the list of backends: whoever wires a program together opens them here, and hands them to the engine as
// values.
package backend

import (
	"errors"
	"os"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Options are what the backends are opened with.
type Options struct {
	Libexec  string   // a folder that holds the guest program; "" looks in the usual places
	CacheDir string   // where a guest program that was built from source is kept; "" is not to build one
	RunDir   string   // where live state is; "" is the backends' own choice
	Runtime  string   // $XDG_RUNTIME_DIR, for that choice
	Stderr   *os.File // receives what a failing guest says last; nil discards it
	Lack     []string // what this host is to be taken to lack, for tests of what happens then
}

// Set is the backends that this system can have, best default first.
type Set struct {
	Backends []sandbox.Backend
	files    []*os.File // that the backends use, closed after them
}

// Close releases what the backends hold. It ends no sandbox.
func (s *Set) Close() error {
	var errs []error
	for _, b := range s.Backends {
		errs = append(errs, b.Close())
	}
	for _, f := range s.files {
		errs = append(errs, f.Close())
	}
	return errors.Join(errs...)
}
