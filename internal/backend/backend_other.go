//go:build !linux

package backend

// Open makes the backends of this system: those whose sandboxes are containers of an engine, in a virtual machine or elsewhere. The others
// are made of Linux's own walls.
func Open(o Options) (*Set, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Set{Backends: containers(o)}, nil
}
