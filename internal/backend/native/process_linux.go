package native

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// guestName is argv[0] of every guest; its ID follows as argv[1], so that a guest can be found without any record.
const guestName = "glovebox-guest"

// guestsOf finds the guests of a sandbox by their command line. A hostile process that imitates one is in its own sandbox, and is
// welcome to end with it.
func guestsOf(id sandbox.ID) []int {
	want := []byte(guestName + "\x00" + string(id) + "\x00")
	names, err := os.ReadDir("/proc")
	if err != nil {
		return nil
	}
	var pids []int
	for _, n := range names {
		pid, err := strconv.Atoi(n.Name())
		if err != nil || pid <= 1 {
			continue
		}
		line, err := os.ReadFile(filepath.Join("/proc", n.Name(), "cmdline"))
		if err == nil && bytes.Equal(line, want) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// killAndWait kills a process and waits until it, and with it the pid namespace whose init it is, is gone.
func killAndWait(ctx context.Context, pid int) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return
	}
	defer unix.Close(fd)
	_ = unix.PidfdSendSignal(fd, unix.SIGKILL, nil, 0)
	_ = waitPidfd(ctx, fd)
}

// pidfdPoll is how often a wait looks at its context; the end of the process itself wakes it at once.
const pidfdPoll = 100 * time.Millisecond

// waitPidfd waits until the process behind a pidfd has ended (a pidfd is readable then: pidfd_open(2)).
func waitPidfd(ctx context.Context, fd int) error {
	for {
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(pidfdPoll.Milliseconds()))
		if n > 0 {
			return nil
		}
		if err != nil && err != unix.EINTR {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}
