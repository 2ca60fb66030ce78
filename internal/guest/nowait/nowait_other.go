//go:build !linux

package nowait

// File is not supported here.
type File struct{}

// New returns nil.
func New(any) *File { return nil }

// Read and TryWrite are never called.
func (*File) Read([]byte) (int, error)     { return 0, nil }
func (*File) TryWrite([]byte) (int, error) { return 0, nil }
