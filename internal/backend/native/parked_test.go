package native

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// parked waits for a parked fork in a warm box of the house, and returns it and its guest.
func (h *house) parked() (guest, fork int) {
	h.Helper()
	eventually(h, "a parked fork", func() bool {
		h.run(python3("pass")) // the box of the first was made before there was a zygote
		guest, fork = h.waiting()
		return fork != 0
	})
	// A run that starts before the box is in the pool makes a new one.
	eventually(h, "its box in the pool", func() bool { return h.Stats().Warm > 0 })
	return guest, fork
}

// waiting finds a parked fork that has confined itself.
func (h *house) waiting() (guest, fork int) {
	boxes, _ := filepath.Glob(filepath.Join(h.backend.options.RunDir, "instances", "*", "boxes", "*"))
	for _, dir := range boxes {
		for _, pid := range guestsOf(sandbox.ID(filepath.Base(dir)), nil) {
			for _, child := range childrenOf(pid) {
				text, _ := os.ReadFile(filepath.Join("/proc", strconv.Itoa(child), "status"))
				if isParked(child) && strings.Contains(string(text), "Seccomp:\t2") {
					guest, fork = pid, child
				}
			}
		}
	}
	return guest, fork
}

// TestParkedForkIsConfined compares a parked fork, from outside, with a program that a guest has started.
func TestParkedForkIsConfined(t *testing.T) {
	h := warmed(t)
	guest, fork := h.parked()
	var started map[string]string
	during(cold(t), "import time; print('up', flush=True); time.sleep(600)", func(_, program int) {
		started = walls(t, program)
	})
	for name, want := range started {
		if got := walls(t, fork)[name]; got != want {
			t.Errorf("%s of a parked fork: %q, of a started program: %q", name, got, want)
		}
	}
	for _, kind := range []string{"ipc", "mnt", "net", "pid", "pid_for_children", "user", "uts"} {
		if ours, theirs := namespace(fork, kind), namespace(guest, kind); ours == "" || ours != theirs {
			t.Errorf("%s namespace: %s, of its guest: %s", kind, ours, theirs)
		}
	}
	if ours, theirs := read(t, fork, "cgroup"), read(t, guest, "cgroup"); ours != theirs {
		t.Errorf("its control groups: %s, those of its guest: %s", ours, theirs)
	}
	fds, _ := filepath.Glob(filepath.Join("/proc", strconv.Itoa(fork), "fd", "*"))
	if len(fds) != 4 { // the last is the channel
		t.Errorf("it has the descriptors %v", fds)
	}
}

// walls reads what confines a process.
func walls(t testing.TB, pid int) map[string]string {
	t.Helper()
	seen := map[string]string{"limits": read(t, pid, "limits"), "oom_score_adj": read(t, pid, "oom_score_adj"),
		"cwd": link(pid, "cwd")}
	for _, name := range []string{"Groups:", "CapInh:", "CapPrm:", "CapEff:", "CapBnd:", "CapAmb:", "NoNewPrivs:",
		"Seccomp:", "Seccomp_filters:"} {
		seen[name] = line(read(t, pid, "status"), name)
	}
	return seen
}

func link(pid int, file string) string {
	to, _ := os.Readlink(filepath.Join("/proc", strconv.Itoa(pid), file))
	return to
}

func namespace(pid int, kind string) string { return link(pid, "ns/"+kind) }

// TestParkedForkIsUsed: the program of the next run is the fork that was parked for it.
func TestParkedForkIsUsed(t *testing.T) {
	h := warmed(t)
	_, fork := h.parked()
	during(h, "import time; print('up', flush=True); time.sleep(600)", func(_, program int) {
		if program != fork {
			t.Errorf("the program is process %d, not the parked one, %d", program, fork)
		}
	})
}

// TestParkedForkMeetsNobody: before another program starts in its box, the guest has ended it. With the same user, the
// program would see it in /proc.
func TestParkedForkMeetsNobody(t *testing.T) {
	h := warmed(t)
	_, fork := h.parked()
	r := python3("import os; print([p for p in os.listdir('/proc') if p.isdigit()] == [str(os.getpid())], " +
		"os.getppid())")
	r.Env = []string{"PYTHONHASHSEED=1"} // no fork has read it
	before := h.Stats().Forked
	result := h.run(r)
	if string(result.Stdout.Head) != "True 1\n" || h.Stats().Forked != before {
		t.Errorf("%s, %q, %q", result.Status, result.Stdout.Head, result.Stderr.Head)
	}
	if isParked(fork) {
		t.Errorf("the fork %d still waits", fork)
	}
}

// TestParkedForkKilled: a run whose parked fork has died starts its own interpreter.
func TestParkedForkKilled(t *testing.T) {
	h := warmed(t)
	_, fork := h.parked()
	p, err := os.FindProcess(fork)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "its end", func() bool { return !isParked(fork) })
	if result := h.run(python3("print(1)")); string(result.Stdout.Head) != "1\n" {
		t.Errorf("%s, %q, %q", result.Status, result.Stdout.Head, result.Stderr.Head)
	}
}
