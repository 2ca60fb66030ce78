package main

import (
	"errors"
	"os"
	"path"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/guest/server"
)

// contained runs the guest in a runtime's container. The plan is in the environment, errors go to stderr, and the
// socket means ready.
func contained(plan *confine.Plan, err error) {
	if err != nil {
		fail(err)
	}
	stage, err := confine.Contained(plan)
	if err != nil {
		fail(err)
	}
	cfg := config(plan, stage)
	cfg.Hold = func() error { return unlink(plan.Listen) }
	cfg.Visited, cfg.Memory, cfg.RootMemory = plan.Visited, plan.Memory, plan.Builder
	s, err := server.New(cfg)
	if err != nil {
		fail(err)
	}
	listener, err := listen(plan.Listen)
	if err != nil {
		fail(err)
	}
	if err := confine.Finish(plan); err != nil {
		fail(err)
	}
	go func() {
		for {
			err := s.Serve(listener)
			if err == nil {
				return // the server has ended
			}
			if errors.Is(err, server.ErrHeld) {
				listener, err = listenAgain(plan.Listen)
			}
			if err != nil {
				fail(err)
			}
		}
	}()
	s.Wait()
	if plan.Visited {
		s.AwaitVisitors()
	}
}

// holdPoll is the interval of checks in listenAgain.
const holdPoll = 5 * time.Millisecond

// listenAgain makes the guest's socket once the host has removed the hold file. It lists the folder and never opens the
// file: a restored kernel requires every file that it had open.
func listenAgain(socket string) (*os.File, error) {
	for {
		names, err := os.ReadDir(path.Dir(socket))
		if err != nil {
			return nil, err
		}
		if !slices.ContainsFunc(names, func(e os.DirEntry) bool { return e.Name() == guest.HoldFile }) {
			return listen(socket)
		}
		time.Sleep(holdPoll)
	}
}

// unlink removes a socket, which may be missing.
func unlink(socket string) error {
	if err := unix.Unlink(socket); err != nil && err != unix.ENOENT {
		return os.NewSyscallError("unlink", err)
	}
	return nil
}

// listen makes the guest's socket, which only the guest's user may connect to.
func listen(socket string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	if err := unlink(socket); err != nil { // from before a restart
		return nil, err
	}
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: socket}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	const backlog = 64
	return os.NewFile(uintptr(fd), "listener"), os.NewSyscallError("listen", unix.Listen(fd, backlog))
}
