package server

import (
	"errors"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/fork"
)

// visits reports whether a process is a visitor: a container runtime started it in the sandbox from outside, as the
// guest's user. Its parent is not in the sandbox, so /proc shows none (proc_pid_stat(5)).
func (st stat) visits() bool { return st.parent == 0 && st.pid != 1 }

// killAllButVisitors kills all processes of the code's user until none is left, not even a zombie. Code cannot become
// another user, so it owns no other process.
func (s *Server) killAllButVisitors(c *call) error {
	for {
		if err := s.killAsCode(); err != nil {
			return err
		}
		s.zombies()
		if !slices.ContainsFunc(s.proc.list(), func(st stat) bool { return st.pid != 1 && !st.visits() }) {
			return nil
		}
		if err := c.pause(killPause); err != nil {
			return err
		}
	}
}

// killAsCode sends SIGKILL to everything that the code's user may signal, in one call, so that nothing forks in
// between. It uses a thread with only that user's ids. This process ignores the signal, as it is pid 1.
func (s *Server) killAsCode() (err error) {
	fork.OnOwnThread(func() {
		uid := uintptr(s.cfg.User.UID)
		if _, _, errno := unix.RawSyscall(unix.SYS_SETRESUID, uid, uid, uid); errno != 0 {
			err = failed("kill all", errno)
			return
		}
		if killErr := syscall.Kill(-1, syscall.SIGKILL); killErr != nil && !errors.Is(killErr, syscall.ESRCH) &&
			!errors.Is(killErr, syscall.EPERM) {
			err = failed("kill all", killErr.(syscall.Errno))
		}
	})
	return err
}

// visitorWait bounds how long an ending guest waits for its visitors, which transmit its last answers.
const visitorWait = 500 * time.Millisecond

// AwaitVisitors returns when no visitor is left, or after visitorWait.
func (s *Server) AwaitVisitors() {
	for end := time.Now().Add(visitorWait); time.Now().Before(end); time.Sleep(killPause) {
		if !slices.ContainsFunc(s.proc.list(), stat.visits) {
			return
		}
	}
}
