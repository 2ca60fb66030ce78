//go:build !linux

package backend

// Open makes the backends of this system: those of container engines. The others need Linux.
func Open(o Options) (*Set, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	return &Set{Backends: containers(o, nil)}, nil
}
