package backendtest

import (
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// wallCases test limits and unreachable resources, as the host sees or counts them.
var wallCases = []testCase{
	{"memory", "an execution over its memory limit ends as out_of_memory, and disturbs no other", testMemory},
	{"memory of a child", "the largest process is killed and reported; the others live on with their files",
		testMemoryChild},
	{"disk is not memory", "a full disk is ENOSPC, never an out-of-memory kill", testDiskNotMemory},
	{"processes", "a fork bomb stops at its limit, and the sandbox still ends in time", testProcesses},
	{"disk", "all writable places together hold no more than the disk limit", testDisk},
	{"inodes", "empty files are limited too", testInodes},
	{"open files", "one process opens no more files than its limit", testOpenFiles},
	{"cpus", "all processes together use no more CPU than the limit", testCPUs},
	{"usage", "CPU and memory are counted by the host", testUsageCounted},
	{"no network", "nothing outside is reachable, while local servers work", testNoNetwork},
	{"host files", "host files are not visible", testHostFiles},
	{"host processes", "host processes are neither visible nor reachable by signals", testHostProcesses},
	{"system directories", "system directories cannot be changed", testSystemDirectories},
	{"privileges", "the code has no capabilities, cannot gain any, and its system calls are filtered", testPrivileges},
	{"commands", "with a list of allowed commands, others and the code's own programs are refused", testCommands},
	{"nothing survives", "no process of a sandbox outlives it, however it hides", testNothingSurvives},
}

// limited makes a run with named limits, so that they are enforced or refused. It skips the test if the host cannot
// enforce them.
func (s *suite) limited(t *testing.T, r engine.OneShot, limits sandbox.Limits) *sandbox.Result {
	t.Helper()
	r.Spec.Limits = limits
	result, err := s.engine.Run(within(t), r)
	if sandbox.KindOf(err) == sandbox.Unsupported && err != nil {
		Skip(t, "limits", err)
	}
	if err != nil {
		t.Fatalf("run: %v", err)
	}
	return result
}

const mib = 1 << 20

func testMemoryChild(t *testing.T, s *suite) {
	r := sh(`echo kept > f; sleep 60 & /usr/bin/python3 -I -S -c 'bytearray(300 << 20)'; echo code $?
		cat f; kill $! && echo alive`)
	result := s.limited(t, r, sandbox.Limits{MemoryBytes: 64 * mib})
	wantOutput(t, result, "code 137\nkept\nalive\n")
	if limit := hint[sandbox.HintChildren](result).Value; limit != 64*mib {
		t.Errorf("the hints %+v do not report the killed child", result.Hints)
	}
}

func testDiskNotMemory(t *testing.T, s *suite) {
	r := sh("head -c 200M /dev/zero > f; echo $?; stat -c %s f")
	result := s.limited(t, r, sandbox.Limits{MemoryBytes: 64 * mib})
	wantStatus(t, result, sandbox.StatusSucceeded)
	if result.Usage.OOMKills > 0 || !strings.HasPrefix(string(result.Stdout.Head), "1\n") {
		t.Errorf("%s: %d kills", result.Stdout.Head, result.Usage.OOMKills)
	}
	if !strings.Contains(string(result.Stderr.Head), "No space left") {
		t.Errorf("stderr %q", result.Stderr.Head)
	}
}

// lateGuest is how long after a deadline the host ends a run that the guest has not ended.
const lateGuest = 500 * time.Millisecond

func testProcesses(t *testing.T, s *suite) {
	r := python(`
import os, time
n = 0
try:
    while n < 500:
        if os.fork() == 0:
            time.sleep(1000)
        n += 1
except OSError as e:
    print(e.errno, n < 24)`)
	wantOutput(t, s.limited(t, r, sandbox.Limits{Pids: 24}), "11 True\n")
	full := python(`
import os, time
try:
    while True:
        if os.fork() == 0:
            time.sleep(1000)
except OSError:
    time.sleep(1000)`)
	// a busy host may be too slow for it
	for full.Request.Timeout = 500 * time.Millisecond; ; full.Request.Timeout *= 4 {
		result := s.limited(t, full, sandbox.Limits{Pids: 24})
		wantStatus(t, result, sandbox.StatusTimeout)
		if hint[sandbox.HintLimit](result).Limit == sandbox.LimitPids {
			break
		}
		if result.Timings.Run > full.Request.Timeout+lateGuest { // then the host ended it, which cannot count processes
			t.Logf("the guest did not end a program within %v of its deadline", lateGuest)
			break
		}
		if full.Request.Timeout > stepTimeout/4 {
			t.Fatalf("a program that waits at its limit of processes is told %+v", result.Hints)
		}
	}
	bomb := sh("bomb() { bomb | bomb & }; bomb; wait; sleep 1000")
	bomb.Request.Timeout = 500 * time.Millisecond
	result := s.limited(t, bomb, sandbox.Limits{Pids: 32})
	t.Logf("a fork bomb of 500ms took %v", result.Timings.Run)
	if result.Status != sandbox.StatusTimeout && result.Status != sandbox.StatusFailed {
		t.Errorf("a fork bomb ended as %s", result.Status)
	}
	wantOutput(t, s.run(t, sh("echo alive")), "alive\n")
}

func testDisk(t *testing.T, s *suite) {
	const limit = 16 * mib
	r := sh(`for d in /workspace /tmp "$HOME" /dev/shm /var/tmp /run /dev /; do
		head -c 40M /dev/zero > $d/f 2>/dev/null; stat -c %s $d/f 2>/dev/null; done`)
	result := s.limited(t, r, sandbox.Limits{DiskBytes: limit})
	wantStatusOneOf(t, result, sandbox.StatusSucceeded, sandbox.StatusFailed)
	var total int64
	for _, field := range strings.Fields(string(result.Stdout.Head)) {
		n, err := strconv.ParseInt(field, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		total += n
	}
	if total > limit || total < limit/2 {
		t.Errorf("%d bytes could be written under a limit of %d", total, int64(limit))
	}
}

func wantStatusOneOf(t *testing.T, r *sandbox.Result, want ...sandbox.Status) {
	t.Helper()
	for _, w := range want {
		if r.Status == w {
			return
		}
	}
	wantStatus(t, r, want[0])
}

func testInodes(t *testing.T, s *suite) {
	r := python(`
import os
n = 0
for d in '/workspace', '/tmp', os.environ['HOME'], '/dev/shm':
    try:
        for i in range(5000):
            os.close(os.open(f'{d}/{i}', os.O_CREAT | os.O_WRONLY))
            n += 1
    except OSError as e:
        last = e.errno
print(n <= 300, n > 50, last)`)
	if !s.has(sandbox.FeatureInodes) {
		r.Spec.Limits.Inodes = 300
		if _, err := s.engine.Run(within(t), r); sandbox.KindOf(err) != sandbox.Unsupported {
			t.Errorf("a limit that is asked for is refused with %v", err)
		}
		return
	}
	wantOutput(t, s.limited(t, r, sandbox.Limits{Inodes: 300}), "True True 28\n")
}

func testOpenFiles(t *testing.T, s *suite) {
	r := python(`
import os, resource
n = 3
try:
    while n < 1000:
        os.dup(0)
        n += 1
except OSError as e:
    print(e.errno, n <= 40)
try:
    resource.setrlimit(resource.RLIMIT_NOFILE, (4096, 4096))
    print('raised')
except (ValueError, OSError):
    print('kept')`)
	r.Request.Command = []string{"/usr/bin/python3", "-c", r.Request.Command[4]}
	wantOutput(t, s.limited(t, r, sandbox.Limits{OpenFiles: 40}), "24 True\nkept\n")
}

func testCPUs(t *testing.T, s *suite) {
	r := sh("for i in 1 2 3; do timeout 2 bash -c 'while :; do :; done' & done; wait")
	result := s.limited(t, r, sandbox.Limits{CPUMillis: 250})
	if result.Usage.CPU < 0 {
		Skip(t, "limits", "the CPU time is not counted here")
	}
	share := result.Usage.CPU.Seconds() / result.Usage.Wall.Seconds()
	if share > 0.25*1.4 {
		t.Errorf("three busy processes used %.2f CPUs under a limit of 0.25", share)
	}
}

func testUsageCounted(t *testing.T, s *suite) {
	r := python("x = bytearray(b'x' * (60 << 20))\nfor i in range(3000000): pass")
	result := s.limited(t, r, sandbox.Limits{MemoryBytes: 256 * mib})
	wantStatus(t, result, sandbox.StatusSucceeded)
	u := result.Usage
	if u.CPU <= 0 || u.CPU > 4*u.Wall+time.Second || u.Wall <= 0 {
		t.Errorf("CPU %v of %v", u.CPU, u.Wall)
	}
	if u.MemoryPeak < 60*mib || u.MemoryPeak > 256*mib {
		t.Errorf("a program that held 60 MiB had a peak of %d", u.MemoryPeak)
	}
}

func testNoNetwork(t *testing.T, s *suite) {
	var hits atomic.Int64
	accept := func(network, address string) string {
		l, err := net.Listen(network, address)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		go func() { // ends with the listener
			for {
				conn, err := l.Accept()
				if err != nil {
					return
				}
				hits.Add(1)
				conn.Close()
			}
		}()
		return l.Addr().String()
	}
	// An address of its own, so that no client of an earlier listener connects.
	host, port, err := net.SplitHostPort(accept("tcp", fmt.Sprintf("127.%d.%d.1:0", rand.IntN(256), rand.IntN(256))))
	if err != nil {
		t.Fatal(err)
	}
	abstract := "fumehood-test-" + canary()
	accept("unix", "@"+abstract)
	r := python(fmt.Sprintf(`
import socket
for family, address in ((socket.AF_INET, ('%s', %s)), (socket.AF_INET, ('192.0.2.1', 80)), (socket.AF_UNIX, '\0%s')):
    s = socket.socket(family)
    s.settimeout(3)
    try:
        s.connect(address)
        print('connected')
    except OSError as e:
        print('refused')
l = socket.create_server(('127.0.0.1', 0))
c = socket.create_connection(l.getsockname())
a, _ = l.accept()
a.send(b'local')
print(c.recv(9).decode())`, host, port, abstract))
	r.Request.Command = []string{"/usr/bin/python3", "-c", r.Request.Command[4]}
	wantOutput(t, s.run(t, r), "refused\nrefused\nrefused\nlocal\n")
	if n := hits.Load(); n != 0 {
		t.Errorf("%d connections reached the host", n)
	}
	if conn, err := net.Dial("tcp", net.JoinHostPort(host, port)); err != nil { // the listener would have seen them
		t.Error(err)
	} else {
		conn.Close()
		eventually(t, "the control", func() bool { return hits.Load() == 1 })
	}
}

func testHostFiles(t *testing.T, s *suite) {
	mark := canary()
	for _, parent := range []string{"", os.Getenv("HOME"), "/var/tmp"} {
		dir, err := os.MkdirTemp(parent, mark)
		if err != nil {
			t.Logf("no canary in %q: %v", parent, err)
			continue
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		if err := os.WriteFile(filepath.Join(dir, mark), []byte(mark), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := os.Chmod(dir, 0o755); err != nil {
			t.Fatal(err)
		}
		r := sh(fmt.Sprintf("cat %[1]s/%[2]s /proc/*/root%[1]s/%[2]s /proc/self/cwd/../%[1]s/%[2]s 2>/dev/null; "+
			"ls %[1]s; ls -d /*/%[2]s*", dir, mark))
		result := s.run(t, r)
		if strings.Contains(string(result.Stdout.Head), mark) {
			t.Errorf("the host's %s is there: %s", dir, result.Stdout.Head)
		}
	}
	result := s.run(t, sh("cat /etc/shadow /etc/ssh/*key /root/.*rc 2>/dev/null; ls /root /home 2>/dev/null"))
	out := strings.TrimPrefix(strings.TrimSpace(string(result.Stdout.Head)), "/home:\n")
	if out != "agent" && out != "agent\nuser" && out != "" { // the folders of the sandbox
		t.Errorf("private files of the host: %.300q", out)
	}
}

func testHostProcesses(t *testing.T, s *suite) {
	mark := canary()
	host := exec.Command("sleep", "1000")
	host.Env = []string{"MARK=" + mark}
	host.Args[0] = mark
	if err := host.Start(); err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() { _ = host.Wait(); close(ended) }()
	defer func() { _ = host.Process.Kill(); <-ended }()
	result := s.run(t, sh(fmt.Sprintf("cat /proc/*/cmdline /proc/*/environ 2>/dev/null | tr '\\0' '\\n' | "+
		"grep -v bash | grep ^canary; kill -9 %d; kill -9 -1; echo here",
		host.Process.Pid)))
	if strings.Contains(string(result.Stdout.Head), mark) {
		t.Error("a process of the host is seen")
	}
	select {
	case <-ended:
		t.Error("a process of the host was killed")
	case <-time.After(50 * time.Millisecond):
	}
}

func testSystemDirectories(t *testing.T, s *suite) {
	mark := canary()
	result := s.run(t, sh(fmt.Sprintf(`for d in /usr /usr/bin /bin /lib /etc /usr/local
		do echo x > $d/%[1]s && echo wrote $d; done
		chmod 777 /usr && echo chmod; mv /usr/bin/env /usr/bin/env2 && echo mv
		echo x >> /etc/passwd && echo passwd`, mark)))
	if out := string(result.Stdout.Head); out != "" {
		t.Errorf("system directories were changed: %s", out)
	}
	for _, dir := range []string{"/usr", "/usr/bin", "/bin", "/lib", "/etc", "/usr/local"} {
		if _, err := os.Lstat(filepath.Join(dir, mark)); err == nil {
			t.Errorf("a file came to be in the host's %s", dir)
			os.Remove(filepath.Join(dir, mark))
		}
	}
}

func testPrivileges(t *testing.T, s *suite) {
	result := s.run(t, sh("grep -E '^(Cap|NoNewPrivs|Seccomp:|Groups)' /proc/self/status"))
	wantStatus(t, result, sandbox.StatusSucceeded)
	got := map[string]string{}
	own := result.Effective.Kernel != sandbox.KernelShared // gVisor does not show the ambient set and no_new_privs
	for line := range strings.Lines(string(result.Stdout.Head)) {
		name, value, _ := strings.Cut(line, ":")
		got[name] = strings.TrimSpace(value)
	}
	for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb"} {
		if _, told := got[set]; !told && set == "CapAmb" && own {
			continue
		}
		if strings.Trim(got[set], "0") != "" || got[set] == "" {
			t.Errorf("%s is %q", set, got[set])
		}
	}
	if got["NoNewPrivs"] != "1" && !own || got["Seccomp"] != "2" {
		t.Errorf("NoNewPrivs %q, Seccomp %q", got["NoNewPrivs"], got["Seccomp"])
	}
}

func testCommands(t *testing.T, s *suite) {
	allow := func(r engine.OneShot) engine.OneShot {
		r.Spec.Commands = []string{"bash", "cat"}
		return r
	}
	if !s.has(sandbox.FeatureCommands) {
		if _, err := s.engine.Run(within(t), allow(sh("true"))); sandbox.KindOf(err) != sandbox.Unsupported {
			t.Errorf("allowed commands are refused with %v", err)
		}
		return
	}
	wantOutput(t, s.run(t, allow(sh("echo in | cat"))), "in\n")
	result := s.run(t, allow(engine.OneShot{Request: sandbox.Request{Command: []string{"ls"}}}))
	wantStatus(t, result, sandbox.StatusRejected)
	if len(hint[sandbox.HintRejected](result).Allowed) != 2 || result.ExitCode != -1 || result.Signal != 0 {
		t.Errorf("code %d, signal %d, hints %+v", result.ExitCode, result.Signal, result.Hints)
	}
	program, err := os.ReadFile("/bin/ls")
	if err != nil {
		t.Fatal(err)
	}
	r := allow(sh("./own >/dev/null 2>&1 || echo refused; cat own > /tmp/own2; " +
		"/tmp/own2 >/dev/null 2>&1 || echo refused" +
		"; ls 2>/dev/null || echo refused"))
	r.Request.Files = []sandbox.File{{Path: "own", Mode: 0o755, Data: program}}
	wantOutput(t, s.run(t, r), "refused\nrefused\nrefused\n")
	if p := result.Effective.Commands; len(p) != 2 {
		t.Errorf("effective commands %v", p)
	}
}

func testNothingSurvives(t *testing.T, s *suite) {
	mark := canary()
	script := fmt.Sprintf(`for i in 1 2 3; do (setsid bash -c "exec -a %[1]s sleep 1000" >/dev/null 2>&1 <&- &); done
		(trap '' TERM HUP INT; exec -a %[1]s setsid nohup sleep 1000 >/dev/null 2>&1 <&-) & 
		until [ $(cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' '\n' | grep -c ^%[1]s) -ge 3 ]
		do sleep 0.01; done; echo up`, mark)
	box := s.create(t, spec())
	out, err := shellOutput(within(t), box, script)
	if err != nil || out != "up\n" {
		t.Fatalf("%q, %v", out, err)
	}
	want := 3
	if box.Effective().Kernel != sandbox.KernelShared { // the host sees only the processes of the sandbox's own kernel
		mark, want = string(box.ID()), 1
	}
	if n := withCommandLine(t, mark); n < want {
		t.Fatalf("%d processes are seen from the host; the check would prove nothing", n)
	}
	if err := box.Close(); err != nil {
		t.Fatal(err)
	}
	if n := withCommandLine(t, mark); n != 0 {
		t.Errorf("%d processes outlive the box", n)
	}
}

// withCommandLine counts the host's processes with a word that begins with mark in their command line.
func withCommandLine(t *testing.T, mark string) int {
	t.Helper()
	lines, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, path := range lines {
		if data, err := os.ReadFile(path); err == nil && strings.Contains("\x00"+string(data), "\x00"+mark) {
			n++
		}
	}
	return n
}
