// Package tap makes the one interface of a network namespace: a TAP device whose outer end, a descriptor, a gate in
// this process can hold. The host's own network does not change.
package tap

import (
	"os"
	"sync"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Kept keeps the outer end of a box's network until Take, and ends with the box.
type Kept struct {
	mu   sync.Mutex // guards both, and is held while an end is opened
	file *os.File
	shut bool
}

// Put keeps an end. Kept must have none.
func (k *Kept) Put(file *os.File) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.file = file
}

// Take returns the kept end, or one that open opens, and its ownership.
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

// Shut waits for Take and makes each later one fail, as the box's process may be gone. It returns a function that
// closes the kept end, if any, which may take 50 ms.
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
