// Package undo is how what was half made is taken back.
package undo

import (
	"errors"
	"slices"
)

// Stack is what has to be taken back, last first, when a later step fails.
type Stack []func() error

// Add puts a step on the stack.
func (s *Stack) Add(f func() error) { *s = append(*s, f) }

// Run takes all steps, also after one that failed, and returns all errors.
func (s Stack) Run() error {
	var errs []error
	for _, f := range slices.Backward(s) {
		errs = append(errs, f())
	}
	return errors.Join(errs...)
}
