package native

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// guestName is argv[0] of every guest; its ID follows as argv[1], so that a guest can be found without any record.
const guestName = "glovebox-guest"

// guestsOf finds the guests of a sandbox by their command line, and by being the first process of a pid namespace, which code in a
// sandbox can imitate neither for another sandbox nor for its own.
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
		if err == nil && bytes.Equal(line, want) && isInit(n.Name()) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// isInit says whether a process is pid 1 of its own namespace (NSpid in proc_pid_status(5): its ids from the outermost on).
func isInit(pid string) bool {
	text, err := os.ReadFile(filepath.Join("/proc", pid, "status"))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(text)) {
		if rest, ok := strings.CutPrefix(line, "NSpid:"); ok {
			ids := strings.Fields(rest)
			return len(ids) > 1 && ids[len(ids)-1] == "1"
		}
	}
	return false
}

// process is the guest of a box: a child of ours, or one that a dead server left.
type process struct {
	pid   int
	pidfd int
	child bool // ours to reap
}

// kill ends the guest, and with it every process of the sandbox.
func (p *process) kill() { _ = unix.PidfdSendSignal(p.pidfd, unix.SIGKILL, nil, 0) }

// wait returns once the guest is gone. The end of a pid namespace's init comes after that of all its processes. What became of a
// guest that is not our child only its reaper knows.
func (p *process) wait() (code, signal int) {
	if !p.child {
		_ = waitPidfd(context.Background(), p.pidfd)
		return -1, 0
	}
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.pid, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return -1, 0
		case ws.Signaled():
			return -1, int(ws.Signal())
		default:
			return ws.ExitStatus(), 0
		}
	}
}

func (p *process) close() { unix.Close(p.pidfd) }

// openProcess takes hold of a guest that is not our child.
func openProcess(pid int) (*process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	return &process{pid: pid, pidfd: fd}, nil
}

// killAndWait kills a guest that is not our child and waits until it is gone.
func killAndWait(ctx context.Context, pid int) {
	p, err := openProcess(pid)
	if err != nil {
		return
	}
	defer p.close()
	p.kill()
	_ = waitPidfd(ctx, p.pidfd)
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
