package backend

import (
	"errors"
	"os"

	"github.com/glovebox-dev/glovebox/internal/backend/native"
	"github.com/glovebox-dev/glovebox/internal/libexec"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Open makes the backends of this system. It probes nothing.
func Open(o Options) (*Set, error) {
	program, err := libexec.Guest(libexec.Options{Dir: o.Libexec, CacheDir: o.CacheDir})
	if err != nil {
		return nil, err
	}
	guest, err := program.Open()
	if err != nil {
		return nil, err
	}
	b, err := native.New(native.Options{Guest: guest, RunDir: o.RunDir, RuntimeDir: o.Runtime, GuestStderr: o.Stderr})
	if err != nil {
		return nil, errors.Join(err, guest.Close())
	}
	return &Set{Backends: []sandbox.Backend{b}, files: []*os.File{guest}}, nil
}
