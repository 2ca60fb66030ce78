// Package files serves the guest protocol's file calls: system calls in the sandbox's own root, as the code's user. A
// file call can do only what the code can do, so links and races that the code prepares reach only its own files.
package files

import (
	"errors"
	"sync/atomic"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Call is one request of a host.
type Call interface {
	Send(m guest.Message) error                // sends a message that others follow
	SendData(p []byte) error                   // sends at most guest.MaxData bytes as one Data message
	Next() (guest.Type, []byte, error)         // receives the host's next message, io.EOF after its last
	Wanted() error                             // ErrCanceled once the host has canceled the call
	OnCancel(f func()) (stop func() (ok bool)) // calls f on cancellation; stop waits for f and returns false after it
}

// Errors that end a call without an answer.
var (
	ErrCanceled  = errors.New("server: the host canceled the call")
	ErrMalformed = errors.New("server: malformed message")
)

// Tree serves file calls. Each call returns the last message of its answer.
type Tree struct {
	threads   *threads
	workspace string      // base of relative paths
	walks     atomic.Bool // the kernel has no openat2
}

// New returns a Tree for the code's user.
func New(user sandbox.User) *Tree {
	return &Tree{threads: newThreads(user), workspace: sandbox.Workspace}
}

// As calls f on a thread with the file-system ids of the code's user. After an error f was not called.
func (t *Tree) As(f func()) error {
	return t.threads.do(func() error {
		f()
		return nil
	})
}

// Close ends the tree's threads and waits for them. Later calls fail.
func (t *Tree) Close() { t.threads.close() }
