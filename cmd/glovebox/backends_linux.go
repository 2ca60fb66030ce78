package main

import (
	"errors"
	"os"

	"github.com/glovebox-dev/glovebox/internal/backend/native"
	"github.com/glovebox-dev/glovebox/internal/libexec"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// backends makes the backends of this system, best default first. release gives back what they hold; it ends no sandbox.
func (a *app) backends() (list []sandbox.Backend, release func() error, err error) {
	dir, _ := a.LookupEnv("GLOVEBOX_LIBEXEC")
	cache, _ := a.cacheDir()
	program, err := libexec.Guest(libexec.Options{Dir: dir, CacheDir: cache})
	if err != nil {
		return nil, nil, err
	}
	guest, err := program.Open()
	if err != nil {
		return nil, nil, err
	}
	options := native.Options{Guest: guest, RunDir: a.runDir()}
	if a.verbose {
		options.GuestStderr, _ = a.Stderr.(*os.File)
	}
	b, err := native.New(options)
	if err != nil {
		return nil, nil, errors.Join(err, guest.Close())
	}
	release = func() error { return errors.Join(b.Close(), guest.Close()) }
	return []sandbox.Backend{b}, release, nil
}
