// Package tap gives a network namespace its one interface: a TAP device whose outer end, a descriptor, can be held by a gate in this process.
// Nothing changes in the host's own network.
package tap

import (
	"os"
	"sync"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Kept keeps the outer end of a box's network until somebody takes it, and ends with the box.
type Kept struct {
	mu   sync.Mutex // guards both, and is held while an end is opened
	file *os.File
	shut bool
}

// Put keeps an end; there must be none yet.
func (k *Kept) Put(file *os.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file = file
}

// Take returns the kept end, which is the caller's from then on, or else one that open opens.
func (k *Kept) Take(open func() (*os.File, error)) (*os.File, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.shut {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "network interface", Msg: "the sandbox has ended"}
	}
	if file := k.file; file != nil {
		k.file = nil
		return file, nil
	}
	return open()
}

// Shut waits for Take and makes each later one fail: by then the descriptor of the box's process may be another's. It returns the function
// that closes an end that nobody took, which the kernel may need 50 ms for.
func (k *Kept) Shut() (release func() error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	file := k.file
	k.file, k.shut = nil, true
	return func() error {
		if file == nil {
			return nil
		}
		return file.Close()
	}
}
