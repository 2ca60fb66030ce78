package native

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// TestForkMeetsItsLimits: a limit ends a forked program like an ordinary one, with the same result; its neighbour and
// the zygote live on.
func TestForkMeetsItsLimits(t *testing.T) {
	h := warmed(t)
	for _, c := range []struct {
		name, code string
		limits     sandbox.Limits
		status     sandbox.Status
		says       string // in stdout or the hint
	}{
		{"time", "print('so far'); import time; time.sleep(600)", sandbox.Limits{Timeout: 500 * time.Millisecond},
			sandbox.StatusTimeout, "so far"},
		{"time, spent", "print('so far')\nwhile True: pass", sandbox.Limits{Timeout: 500 * time.Millisecond},
			sandbox.StatusTimeout, "so far"},
		{"memory", "print('so far'); x = b'x' * (1 << 30)", sandbox.Limits{MemoryBytes: 64 << 20},
			sandbox.StatusOutOfMemory,
			"67108864"},
		{"memory of a child", "import os\nprint('so far')\nif os.fork() == 0: x = b'x' * (1 << 30)\nprint(os.wait()[1])",
			sandbox.Limits{MemoryBytes: 64 << 20},
			sandbox.StatusSucceeded, "67108864"},
		{"output", "import sys\nwhile True: print('x' * 1000); sys.stderr.write('y' * 1000)",
			sandbox.Limits{OutputBytes: 64 << 10}, sandbox.StatusOutputLimit, "xxx"},
		{"processes", "import os\nwhile True:\n    if os.fork() == 0: os.read(os.pipe()[0], 1)",
			sandbox.Limits{Pids: 16},
			sandbox.StatusFailed, ""},
		{"files", "f = [open('/dev/null') for _ in range(100)]", sandbox.Limits{OpenFiles: 64}, sandbox.StatusFailed,
			""},
		{"disk", "open('x', 'wb').write(bytes(32 << 20))", sandbox.Limits{DiskBytes: 8 << 20}, sandbox.StatusFailed,
			""},
	} {
		t.Run(c.name, func(t *testing.T) {
			h.TB = t
			during(h, "print('up', flush=True); import time; time.sleep(600)", func(_, neighbour int) {
				run, before := engine.OneShot{Request: python3(c.code), Spec: sandbox.Spec{Limits: c.limits}},
					h.Stats().Forked
				result, err := h.Run(t.Context(), run)
				for ; err == nil && result.Status == sandbox.StatusTimeout && len(result.Stdout.Head) == 0 &&
					run.Spec.Limits.Timeout < stepTimeout; before++ {
					run.Spec.Limits.Timeout *= 4 // a busy host had not let it say anything
					result, err = h.Run(t.Context(), run)
				}
				if err != nil {
					t.Fatal(err)
				}
				if result.Status != c.status || !strings.Contains(string(result.Stdout.Head)+fmt.Sprint(result.Hints),
					c.says) {
					t.Errorf("%s, %.200q, %.500q, %+v", result.Status, result.Stdout.Head, result.Stderr.Head,
						result.Hints)
				}
				if h.Stats().Forked != before+1 {
					t.Error("it was no fork")
				}
				if _, err := os.Stat("/proc/" + strconv.Itoa(neighbour) + "/ns/pid"); err != nil {
					t.Errorf("its neighbour has ended: %v", err)
				}
			})
			h.alone(python3("print(1)"))
		})
	}
}

// TestManyForksAtOnce: concurrent forks each have their own arguments and output.
func TestManyForksAtOnce(t *testing.T) {
	backendtest.ForCheck(t, "32 interpreters at once")
	h := warmed(t)
	before := h.Stats().Forked
	h.atOnce(32, nil)
	if forks := h.Stats().Forked - before; forks != 32 {
		t.Errorf("%d of 32 were forks", forks)
	}
}

// atOnce makes many runs, calls do while they run, and checks each answer.
func (h *house) atOnce(n int, do func()) {
	h.Helper()
	var all sync.WaitGroup
	for i := range n {
		all.Go(func() {
			word := fmt.Sprint("run ", i)
			r := python3("import os, sys; print(sys.argv[1], os.environ['WORD'], open('word').read()); sys.exit(len(os.listdir('/proc/self/fd')))")
			r.Args, r.Env, r.Files = []string{word}, []string{"WORD=" + word}, []sandbox.File{{Path: "word",
				Data: []byte(word)}}
			result, err := h.Run(context.Background(), engine.OneShot{Request: r})
			if err != nil {
				h.Error(err)
				return
			}
			if want := word + " " + word + " " + word + "\n"; string(result.Stdout.Head) != want ||
				result.ExitCode != 4 {
				h.Errorf("run %d: %s %d, %q, %q, %+v", i, result.Status, result.ExitCode, result.Stdout.Head,
					result.Stderr.Head,
					result.Hints)
			}
		})
	}
	if do != nil {
		do()
	}
	all.Wait()
}

// bounds sets the zygotes' limits for one test, before it opens a backend.
func bounds(t *testing.T, forks int, backoff time.Duration) {
	oldForks, oldBackoff, oldFork, oldZygote := zygoteForks, zygoteBackoff, forkTimeout, zygoteTimeout
	t.Cleanup(func() {
		zygoteForks, zygoteBackoff, forkTimeout, zygoteTimeout = oldForks, oldBackoff, oldFork, oldZygote
	})
	zygoteForks, zygoteBackoff = forks, backoff
}

func (h *house) zygote() *zygote {
	zs := &h.backend.zygotes
	zs.mu.Lock()
	defer zs.mu.Unlock()
	return zs.ready
}

// TestZygoteKilled: runs that relied on a killed zygote start normally, and later there is a new one.
func TestZygoteKilled(t *testing.T) {
	backendtest.ForCheck(t, "zygotes end at moments that chance chooses")
	bounds(t, 2000, 10*time.Millisecond)
	h := warmed(t)
	for range 5 {
		pause := time.Duration(rand.IntN(30)) * time.Millisecond
		before := h.Stats().Forked
		h.atOnce(16, func() {
			time.Sleep(pause)
			if z := h.zygote(); z != nil {
				z.process.Kill()
			}
		})
		t.Logf("killed after %v, when %d of 16 had forked", pause, h.Stats().Forked-before)
		h.awaitZygote()
	}
	h.zygote().process.Kill() // while nothing is asked of it
	h.run(python3("pass"))
	h.awaitZygote()
}

// TestZygoteStuck: a zygote that accepts orders and does nothing costs a run one timeout, and is given up after a few.
func TestZygoteStuck(t *testing.T) {
	backendtest.ForCheck(t, "each fork waits for its stepTimeout to end")
	bounds(t, 2000, 10*time.Millisecond)
	forkTimeout, zygoteTimeout = time.Second, time.Second // of a fork, and at its end
	h := warmed(t)
	z := h.zygote()
	if err := unix.Kill(z.process.PID, unix.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	h.atOnce(zygoteStrikes, nil)
	eventually(t, "the end of the stopped zygote", z.dead)
	h.awaitZygote()
}

// TestZygoteIsFollowed: after its limit of forks a zygote is replaced and ends.
func TestZygoteIsFollowed(t *testing.T) {
	bounds(t, 3, time.Minute)
	h := warmed(t)
	seen := map[int]*zygote{}
	eventually(t, "a fourth zygote", func() bool {
		h.run(python3("pass"))
		z := h.zygote()
		seen[z.process.PID] = z
		return len(seen) == 4
	})
	last := h.zygote()
	for _, z := range seen {
		if z != last {
			eventually(t, "the end of a zygote that is followed", z.dead)
		}
	}
}

// TestForkCanceled cancels runs while their forks start.
func TestForkCanceled(t *testing.T) {
	backendtest.ForCheck(t, "runs are given up at moments that chance chooses")
	h := warmed(t)
	var all sync.WaitGroup
	for i := range 40 {
		all.Go(func() {
			ctx, cancel := context.WithTimeout(context.Background(), time.Duration(i)*time.Millisecond/2)
			defer cancel()
			result, err := h.Run(ctx, engine.OneShot{Request: python3("import time; time.sleep(600)")})
			if err == nil && result.Status != sandbox.StatusCanceled || err != nil && ctx.Err() == nil {
				t.Errorf("%v, %v", result, err)
			}
		})
		time.Sleep(time.Millisecond)
	}
	all.Wait()
	h.awaitZygote()
	h.noneLeft()
}

// noneLeft waits until the only processes in the house's sandboxes are the warm ones' guests.
func (h *house) noneLeft() {
	h.Helper()
	eventually(h, "the end of all programs", func() bool {
		boxes, _ := filepath.Glob(filepath.Join(h.backend.options.RunDir, "instances", "*", "boxes", "*"))
		for _, dir := range boxes {
			for _, pid := range guestsOf(sandbox.ID(filepath.Base(dir)), nil) {
				if len(childrenOf(pid)) > 0 {
					return false
				}
			}
		}
		return true
	})
}

// TestSandboxEndsUnderFork ends sandboxes while forks enter them: Fork reports it at any moment, and the next sandbox
// is not affected.
func TestSandboxEndsUnderFork(t *testing.T) {
	backendtest.ForCheck(t, "sandboxes end at moments that chance chooses")
	h := warmed(t)
	z := h.zygote()
	f := sandbox.Fork{Zygote: z.zygote, Argv: z.argv, Reads: z.reads, Dir: sandbox.Workspace}
	for i := range 40 {
		box := create(t, h.backend, spec()).(*Box)
		var ended sync.WaitGroup
		ended.Go(func() {
			time.Sleep(time.Duration(i) * 100 * time.Microsecond)
			if i%2 == 0 {
				box.Process.Kill()
			} else if err := box.Close(); err != nil {
				t.Error(err)
			}
		})
		forked, err := box.Fork(t.Context(), f)
		ended.Wait()
		if err == nil {
			forked.Close()
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
		if left := leftovers(t, h.backend, box.ID()); len(guestsOf(box.ID(), nil)) > 0 {
			t.Errorf("left: %v", left)
		}
		if h.zygote() == nil {
			break // it was given up, as too many in a row have failed
		}
		h.alone(python3("pass")) // it has not, when its next one goes well
	}
}

// TestForkThatIsNotAdopted: a fork that the guest has not adopted ends without a program.
func TestForkThatIsNotAdopted(t *testing.T) {
	h := warmed(t)
	z := h.zygote()
	box := create(t, h.backend, spec()).(*Box)
	f := sandbox.Fork{Zygote: z.zygote, Argv: z.argv, Reads: z.reads, Dir: sandbox.Workspace}
	forked, err := box.Fork(t.Context(), f)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(childrenOf(box.Process.PID)); n != 1 {
		t.Errorf("%d processes wait", n)
	}
	forked.Close()
	eventually(t, "its end", func() bool { return len(childrenOf(box.Process.PID)) == 0 })
	if o := run(t, box, "/bin/echo", "on"); o.stdout != "on\n" {
		t.Errorf("an ordinary start after it: %+v", o)
	}
	if _, err := box.Fork(t.Context(), f); err != sandbox.ErrNoZygote {
		t.Errorf("a second fork into one sandbox: %v", err)
	}
}

// TestCloseEndsZygote: a closed backend leaves no process, whether a zygote waits, starts or has just been requested.
func TestCloseEndsZygote(t *testing.T) {
	for i := range 6 {
		before := len(childrenOf(os.Getpid()))
		t.Run(fmt.Sprint(i), func(t *testing.T) {
			h := newHouse(t, 1)
			if i > 3 {
				h.awaitZygote()
			}
			h.run(python3("pass"))
			time.Sleep(time.Duration(i*20) * time.Millisecond)
		})
		if after := childrenOf(os.Getpid()); len(after) > before {
			t.Errorf("processes %v are left", after)
		}
	}
}
