//go:build !linux

package backend

import (
	"os"
	"path/filepath"
)

// Open makes the backends of this system: those whose sandboxes are containers of an engine, in a virtual machine or elsewhere. The others
// are made of Linux's own walls.
func Open(o Options) (*Set, error) {
	if o.RunDir == "" {
		cache, err := os.UserCacheDir()
		if err != nil {
			return nil, err
		}
		o.RunDir = filepath.Join(cache, "glovebox", "run")
	}
	return &Set{Backends: containers(o, o.RunDir)}, nil
}
