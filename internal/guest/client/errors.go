package client

import (
	"context"
	"fmt"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxText bounds an error text from the guest.
const maxText = 4 << 10

// Forgotten is in the error chain of an Attach at an offset whose output the guest has dropped.
type Forgotten struct {
	Stream sandbox.Stream
	Oldest uint64 // the oldest offset that is kept
}

func (e *Forgotten) Error() string {
	return fmt.Sprintf("the oldest output of %s that is kept is at %d", e.Stream, e.Oldest)
}

// broken returns the error for a failed connection or guest, or an ended context.
func broken(ctx context.Context, op string, err error) error {
	if cause := context.Cause(ctx); cause != nil {
		err = cause
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: op, Err: err}
}

func failure(op string, f *guest.Failed) error {
	e := &sandbox.Error{Kind: f.Kind, Op: op, Msg: clean(f.Msg)}
	if f.Kind > sandbox.TooLarge {
		e.Kind = sandbox.Internal
	}
	if f.Op != "" {
		e.Op += ": " + clean(f.Op)
	}
	switch {
	case f.Stream >= sandbox.Stdout && f.Stream <= sandbox.Background:
		e.Err = &Forgotten{Stream: f.Stream, Oldest: f.Value}
	case f.Errno > 0 && f.Errno < 4096: // the kernel's MAX_ERRNO
		e.Err = syscall.Errno(f.Errno)
		if e.Msg != "" {
			e.Err = explained{syscall.Errno(f.Errno)}
		}
	}
	return e
}

// explained is an error number whose text the message has already.
type explained struct{ errno syscall.Errno }

func (explained) Error() string   { return "" }
func (e explained) Unwrap() error { return e.errno }

// clean bounds a guest's text and makes it safe to print.
func clean(s string) string {
	if len(s) > maxText {
		s = s[:maxText]
	}
	return strings.Map(func(r rune) rune {
		if r < ' ' || r == 0x7f || r == 0xfffd {
			return '?'
		}
		return r
	}, s)
}
