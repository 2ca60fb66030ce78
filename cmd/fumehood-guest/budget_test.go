//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/backend/native"
	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The budget of a guest, which every sandbox pays. The test compares the best of many starts, as a busy machine slows
// down some.
const (
	readyBudget   = 3 * time.Millisecond // from its start to its answer to a plan
	memoryBudget  = 9 << 19              // resident: three quarters are pages of its program, which all guests share
	privateBudget = 3 << 19              // of that, not shared with other guests
	starts        = 40
)

const hello = `package main

import (
	"fmt"
	"os"
)

func main() {
	fmt.Fprint(os.Stdout, "hello")
	os.Stdin.Read(make([]byte, 1))
}
`

func build(t *testing.T, name, dir, pkg string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	cmd := exec.Command("go", "build", "-trimpath", "-ldflags=-s -w", "-o", path, pkg)
	cmd.Dir, cmd.Env = dir, append(os.Environ(), "CGO_ENABLED=0")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return path
}

// TestStartBudget measures a guest until it refuses a plan at the first step, and a plain Go program until it prints a
// word.
func TestStartBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: a budget of time")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{"main.go": hello, "go.mod": "module hello\n\ngo 1.26\n"} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	guest, plain := build(t, "guest", ".", "."), build(t, "hello", dir, ".")
	var ours, theirs []time.Duration
	for range starts {
		ours = append(ours, startGuest(t, guest))
		theirs = append(theirs, startPlain(t, plain))
	}
	slices.Sort(ours)
	slices.Sort(theirs)
	t.Logf("guest: best %v, median %v; plain Go program: best %v, median %v", ours[0], ours[starts/2], theirs[0],
		theirs[starts/2])
	if ours[0] > readyBudget {
		t.Errorf("the guest needs %v to be ready; its budget is %v", ours[0], readyBudget)
	}
}

func startGuest(t *testing.T, program string) time.Duration {
	t.Helper()
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "ours"), os.NewFile(uintptr(pair[1]), "theirs")
	defer ours.Close()
	plan := (&confine.Plan{FailAt: confine.StepKnobs}).Append(make([]byte, 4))
	binary.LittleEndian.PutUint32(plan, uint32(len(plan)-4))
	if _, err := ours.Write(plan); err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	p, err := os.StartProcess(program, []string{"guest"}, &os.ProcAttr{Files: []*os.File{nil, nil, nil, theirs},
		Env: []string{"GOMAXPROCS=2"}})
	theirs.Close()
	if err != nil {
		t.Fatal(err)
	}
	var answer [4]byte
	if _, err := io.ReadFull(ours, answer[:]); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	_, err = p.Wait()
	if err != nil || binary.LittleEndian.Uint32(answer[:]) == 0 {
		t.Fatalf("the guest accepted a bad plan (%v)", err)
	}
	return took
}

func startPlain(t *testing.T, program string) time.Duration {
	t.Helper()
	cmd := exec.Command(program)
	cmd.Env = []string{"GOMAXPROCS=2"}
	stdin, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	stdout, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	began := time.Now()
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	if _, err := io.ReadFull(stdout, make([]byte, 5)); err != nil {
		t.Fatal(err)
	}
	took := time.Since(began)
	stdin.Close()
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	return took
}

// TestMemoryBudget measures the guests of two live sandboxes, which share the program's pages.
func TestMemoryBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: a budget of memory")
	}
	program, err := os.Open(build(t, "guest", ".", "."))
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	b, err := native.New(native.Options{Guest: program, RunDir: filepath.Join(t.TempDir(), "run")})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	for range 2 {
		box, err := b.Create(context.Background(), sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits,
			User: sandbox.DefaultUser, AllowUnenforced: []string{"memory", "cpus"}})
		if err != nil {
			t.Fatal(err)
		}
		defer box.Close()
	}
	found := 0
	names, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		line, err := os.ReadFile(name)
		status, statusErr := os.ReadFile(filepath.Join(filepath.Dir(name), "status"))
		if err != nil || statusErr != nil || !strings.HasPrefix(string(line), "fumehood-guest\x00") ||
			!strings.Contains(string(status), "\nPPid:\t"+strconv.Itoa(os.Getpid())+"\n") {
			continue
		}
		rollup, err := os.ReadFile(filepath.Join(filepath.Dir(name), "smaps_rollup"))
		if os.IsPermission(err) {
			t.Skip("an ordinary user may not look into a guest that is another user's or not dumpable")
		}
		if err != nil {
			t.Fatal(err)
		}
		found++
		resident, private := kilobytes(t, rollup, "Rss:"), kilobytes(t, rollup, "Private_Dirty:")+kilobytes(t, rollup,
			"Private_Clean:")
		t.Logf("guest: %d KiB resident, %d of them private", resident>>10, private>>10)
		if resident > memoryBudget || private > privateBudget {
			t.Errorf("%d bytes resident and %d private; the budget is %d and %d", resident, private, memoryBudget,
				privateBudget)
		}
	}
	if found < 2 { // a third one may make the root of later sandboxes
		t.Errorf("found %d guests of ours; there are 2 at least", found)
	}
}

func kilobytes(t *testing.T, rollup []byte, key string) int {
	t.Helper()
	for line := range strings.Lines(string(rollup)) {
		if f := strings.Fields(line); len(f) == 3 && f[0] == key {
			n, err := strconv.Atoi(f[1])
			if err != nil {
				t.Fatal(err)
			}
			return n << 10
		}
	}
	t.Fatalf("no %s in smaps_rollup", key)
	return 0
}
