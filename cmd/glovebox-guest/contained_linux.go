package main

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/guest/confine"
	"github.com/glovebox-dev/glovebox/internal/guest/server"
)

// contained is the guest's life in a container that a runtime made: the plan came in the environment, what fails is said on stderr,
// and that it is ready shows by its socket.
func contained(plan *confine.Plan, err error) {
	if err != nil {
		fail(err)
	}
	stage, err := confine.Contained(plan)
	if err != nil {
		fail(err)
	}
	s, err := server.New(config(plan, stage))
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
		if err := s.Serve(listener); err != nil {
			fail(err)
		}
	}()
	s.Wait()
}

// listen makes the guest's socket, which only the guest's user may connect to.
func listen(path string) (*os.File, error) {
	fd, err := unix.Socket(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return nil, os.NewSyscallError("socket", err)
	}
	_ = unix.Unlink(path) // of an earlier life
	if err := unix.Bind(fd, &unix.SockaddrUnix{Name: path}); err != nil {
		return nil, os.NewSyscallError("bind", err)
	}
	const backlog = 64
	return os.NewFile(uintptr(fd), "listener"), os.NewSyscallError("listen", unix.Listen(fd, backlog))
}
