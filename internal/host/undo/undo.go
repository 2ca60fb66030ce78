// Package undo reverses completed steps after a later one failed.
package undo

import (
	"errors"
	"slices"
)

// Stack holds the undo steps to run, last first, when a later step fails.
type Stack []func() error

func (s *Stack) Add(f func() error) { *s = append(*s, f) }

// Run runs all steps, even after a failed one, and returns all errors.
func (s Stack) Run() error {
	var errs []error
	for _, f := range slices.Backward(s) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
