package server

import (
	"bufio"
	"errors"
	"os"
	"os/exec"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// The output of a reaped process is awaited while others of its execution are being killed, but not for ever.
func TestOutputIsAwaitedWhileOthersAreKilled(t *testing.T) {
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	defer w.Close()
	p := newProcess(nil, "", nil)
	p.outputs[0] = newOutput(p, sandbox.Stdout, r, 1, false)
	hunt := func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.hunt()
	}
	expect := func(when string, awaited bool) {
		t.Helper()
		w.Write([]byte("x"))
		_, err := r.Read(make([]byte, 1))
		if awaited != (err == nil) || err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("%s: %v", when, err)
		}
	}
	p.born, p.drain = time.Now(), 1
	p.reaped, p.wall = true, time.Hour // its end is in the future, so that no time runs out here
	hunt()
	p.hunted()
	expect("after a hunt", false)
	hunt()
	expect("during another one", true)
	hunt()
	p.hunted()
	expect("during one of two", true)
	p.hunted()
	expect("after all", false)
	p.wall = -time.Hour
	hunt()
	expect("long after the end", false)
}

// A process whose environment and arguments are empty for good is not in the middle of execve: nobody waits for them.
func TestEmptyEnvironIsNoExec(t *testing.T) {
	const code = `
import ctypes, struct
libc = ctypes.CDLL(None, use_errno=True)
libc.sbrk.restype = ctypes.c_void_p
stat = open("/proc/self/stat").read().rpartition(")")[2].split()
n = lambda field: int(stat[field - 3])  # proc_pid_stat(5)
at = n(50)  # env_start
m = struct.pack("12QIi", n(26), n(27), n(45), n(46), n(47), libc.sbrk(0), n(28), at, at, at, at, 0, 0, -1)  # struct prctl_mm_map
print(libc.prctl(35, 14, m, len(m), 0) and ctypes.get_errno(), flush=True)  # PR_SET_MM, PR_SET_MM_MAP
import sys; sys.stdin.read()
`
	cmd := exec.Command("/usr/bin/python3", "-c", code)
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	cmd.Stderr = os.Stderr
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer cmd.Wait()
	defer in.Close()
	errno, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatal(err)
	}
	if errno != "0\n" {
		t.Skipf("SKIPPED, NOT TESTED: PR_SET_MM_MAP is errno %s", errno)
	}
	var proc procfs
	if _, empty := proc.environ(cmd.Process.Pid, "x"); !empty {
		t.Fatal("it still has an environment")
	}
	if named, unclear := proc.names(cmd.Process.Pid, "x"); named || unclear {
		t.Errorf("named %v, unclear %v", named, unclear)
	}
	if proc.envEnd(cmd.Process.Pid) == "" {
		t.Error("/proc/PID/stat does not tell the end of the environment")
	}
}
