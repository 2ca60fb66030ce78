package backend

import (
	"errors"
	"os"
	"path/filepath"

	"github.com/fumehood-dev/fumehood/internal/backend/gvisor"
	"github.com/fumehood-dev/fumehood/internal/backend/native"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/libexec"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Open makes the backends of this system. It probes nothing.
func Open(o Options) (*Set, error) {
	if err := o.complete(); err != nil {
		return nil, err
	}
	options := libexec.Options{Dir: o.Libexec, CacheDir: o.CacheDir}
	program, err := libexec.Guest(options)
	if err != nil {
		return nil, err
	}
	guest, err := program.Open()
	if err != nil {
		return nil, err
	}
	images := o.images()
	var lines []*sandbox.Startup
	for _, l := range lang.All() {
		if l.Lines != nil {
			lines = append(lines, l.Lines)
		}
	}
	b, err := native.New(native.Options{Guest: guest, RunDir: o.RunDir, GuestStderr: o.Stderr, Lack: o.Lack,
		Images: images, Recheck: o.Recheck})
	if err != nil {
		return nil, errors.Join(err, guest.Close())
	}
	g, err := gvisor.New(gvisor.Options{Guest: guest, Runsc: func() (*os.File, error) {
		program, err := libexec.Runsc(options)
		if err != nil {
			return nil, err
		}
		return program.Open()
	}, RunDir: filepath.Join(o.RunDir, gvisor.Name), HostIDs: filepath.Join(o.RunDir, hostid.File), Stderr: o.Stderr,
		Lack: o.Lack, Lines: lines, Images: images,
		Recheck: o.Recheck})
	if err != nil {
		return nil, errors.Join(err, b.Close(), guest.Close())
	}
	return &Set{Backends: append([]sandbox.Backend{b, g}, containers(o, images)...), files: []*os.File{guest}}, nil
}
