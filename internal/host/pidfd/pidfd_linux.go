// Package pidfd refers to processes by descriptor, so that no signal hits a later process with the same id
// (pidfd_open(2), Linux 5.3).
package pidfd

import (
	"context"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Process is a process held by a pidfd, a child of ours or not.
type Process struct {
	PID   int
	FD    int
	Child bool // ours to reap
}

// Kill kills the process. If it is the init of a pid namespace, all processes there end too.
func (p *Process) Kill() { _ = unix.PidfdSendSignal(p.FD, unix.SIGKILL, nil, 0) }

// Wait returns once the process is gone. A pid namespace's init ends after all its processes. The end of a process that
// is not our child is unknown, -1 and 0, on Linux before 6.15 if its parent has already reaped it.
func (p *Process) Wait() (code, signal int) {
	if !p.Child {
		_ = Await(context.Background(), p.FD)
		return p.exit()
	}
	var ws syscall.WaitStatus
	for {
		_, err := syscall.Wait4(p.PID, &ws, 0, nil)
		switch {
		case err == syscall.EINTR:
		case err != nil:
			return -1, 0
		default:
			return outcome(ws)
		}
	}
}

// exit returns how a process that is not our child ended.
func (p *Process) exit() (code, signal int) {
	status, isZombie := zombie(p.PID)
	if isZombie && unix.PidfdSendSignal(p.FD, 0, nil, 0) == nil { // not reaped yet, so the number is still its own
		return outcome(status)
	}
	info := unix.PidfdInfo{Mask: unix.PIDFD_INFO_EXIT}
	if err := unix.IoctlPidfdInfo(p.FD, &info); err != nil || info.Mask&unix.PIDFD_INFO_EXIT == 0 {
		return -1, 0
	}
	return outcome(syscall.WaitStatus(info.Exit_code))
}

// zombie returns the status of a process that waits for its parent: fields 3 and 52 of proc_pid_stat(5).
func zombie(pid int) (ws syscall.WaitStatus, is bool) {
	fields := Stat(pid)
	const state, exitCode = 0, 49
	if len(fields) <= exitCode || fields[state] != "Z" {
		return 0, false
	}
	n, err := strconv.ParseUint(fields[exitCode], 10, 32)
	return syscall.WaitStatus(n), err == nil
}

func outcome(ws syscall.WaitStatus) (code, signal int) {
	if ws.Signaled() {
		return -1, int(ws.Signal())
	}
	return ws.ExitStatus(), 0
}

func (p *Process) Close() { unix.Close(p.FD) }

// Open returns a process that is not our child.
func Open(pid int) (*Process, error) {
	fd, err := unix.PidfdOpen(pid, 0)
	if err != nil {
		return nil, err
	}
	return &Process{PID: pid, FD: fd}, nil
}

// KillAndWait kills a process that is not our child, and waits until it is gone.
func KillAndWait(ctx context.Context, pid int) {
	p, err := Open(pid)
	if err != nil {
		return
	}
	defer p.Close()
	p.Kill()
	_ = Await(ctx, p.FD)
}

// lookEvery is how often a wait checks whether its context was canceled. The end of the process and the context's
// deadline wake it at once.
const lookEvery = 100 * time.Millisecond

// Await waits until the process behind a pidfd has ended (a pidfd is readable then: pidfd_open(2)).
func Await(ctx context.Context, fd int) error {
	for {
		wait := lookEvery
		if deadline, ok := ctx.Deadline(); ok {
			wait = max(min(wait, time.Until(deadline).Round(time.Millisecond)), 0)
		}
		fds := []unix.PollFd{{Fd: int32(fd), Events: unix.POLLIN}}
		n, err := unix.Poll(fds, int(wait.Milliseconds()))
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

func Find(wanted func(argv []string) bool) (pids []int) {
	return FindAmong(all(), wanted)
}

// all lists the processes of this host, except pid 1.
func all() (pids []int) {
	names, _ := os.ReadDir("/proc") // without /proc there is nothing to find
	for _, n := range names {
		if pid, err := strconv.Atoi(n.Name()); err == nil && pid > 1 {
			pids = append(pids, pid)
		}
	}
	return pids
}

// FindAmong is Find among some processes; nil is all.
func FindAmong(some []int, wanted func(argv []string) bool) (pids []int) {
	if some == nil {
		some = all()
	}
	for _, pid := range some {
		line, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/cmdline")
		if err == nil && wanted(strings.Split(strings.TrimSuffix(string(line), "\x00"), "\x00")) {
			pids = append(pids, pid)
		}
	}
	return pids
}

// Stat returns the fields of proc_pid_stat(5) from the third one, the state; none if there is no such process. They
// follow the last parenthesis, as the name before it may contain anything.
func Stat(pid int) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err != nil {
		return nil
	}
	return strings.Fields(string(text[strings.LastIndexByte(string(text), ')')+1:]))
}

// Status returns the fields of a line of proc_pid_status(5), such as "Uid:"; none if there is no such line or process.
func Status(pid int, line string) []string {
	text, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/status")
	if err != nil {
		return nil
	}
	for l := range strings.Lines(string(text)) {
		if rest, is := strings.CutPrefix(l, line); is {
			return strings.Fields(rest)
		}
	}
	return nil
}

// IsOfUser reports whether is returns true for a process's real, effective and saved user ids. Its file-system id may
// differ: a guest makes file calls as the code.
func IsOfUser(pid int, is func(uid uint32) bool) bool {
	ids := Status(pid, "Uid:")
	return len(ids) > 3 && !slices.ContainsFunc(ids[:3], func(text string) bool {
		uid, err := strconv.ParseUint(text, 10, 32)
		return err != nil || !is(uint32(uid))
	})
}
