package attack

import (
	"context"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// neighbours is the number of ordinary runs beside an attack on resources.
const neighbours = 6

// pidsSlack is how far a group's process count may exceed the limit: the guest's own threads.
const pidsSlack = 64

// The most tasks that the host may count for a user-space kernel: its own threads, and a few per process of the code.
const (
	kernelTasks           = 256
	kernelTasksPerProcess = 4
)

// driveVictim runs the probe to its end, with ordinary runs beside it.
func driveVictim(tr *trial) {
	done, most := 0, int64(0)
	stop := poll(10*time.Millisecond, func() {
		if done < neighbours {
			if err := tr.arena.Benign(tr.ctx); err != nil {
				tr.fail("beside it: %v", err)
			}
			done++
		}
		for _, g := range tr.arena.spy.sightings(tr.nonce) {
			if u, err := g.box.Usage(context.Background()); err == nil {
				most = max(most, u.PidsNow)
			}
		}
	})
	defer stop()
	r := tr.execute(tr.attack.code)
	stop()
	tr.judge(r)
	bound := tr.attack.limits.Pids + pidsSlack
	if tr.userSpace() {
		bound = kernelTasks + kernelTasksPerProcess*tr.attack.limits.Pids
	}
	if tr.attack.limits.Pids > 0 && most > bound {
		tr.fail("the host counted %d processes and threads; with a limit of %d there may be %d", most,
			tr.attack.limits.Pids, bound)
	}
	tr.note("%s after %v; at the most %d processes; %d ordinary runs beside it", r.Status, r.Timings.Run, most, done)
}

// kernelMemory is added to the limit for a sandbox's own kernel.
const kernelMemory = 24 << 20

// driveMemory checks the peak that the host counted. checkLeftovers checks that no process and no control group is left
// that could hold the memory. It does not measure whether the kernel has freed all of it: a group can be removed while
// memory is charged to it, and others use the host's free memory too.
func driveMemory(tr *trial) {
	r := tr.executeAndJudge(tr.attack.code)
	limit := tr.attack.limits.MemoryBytes
	if tr.userSpace() {
		limit += kernelMemory
	}
	if r.Usage.MemoryPeak > limit+limit/8 {
		tr.fail("the peak was %s of a limit of %s", sandbox.FormatBytes(r.Usage.MemoryPeak), sandbox.FormatBytes(limit))
	}
}

// driveDisk is R04.
func driveDisk(tr *trial) {
	r := tr.executeAndJudge(tr.attack.code)
	got := byPath(r)
	if got["small"] != "kept" {
		tr.fail("handed back %d files, %v left out", len(r.Files), r.Skipped)
	}
	for name, text := range got {
		if int64(len(text)) > sandbox.DefaultReturnFileBytes {
			tr.fail("%s was handed back with %d bytes", name, len(text))
		}
	}
}

// manyFiles is how many files a sandbox may have open while one of its programs reaches its limit of 1024, guest and
// kernel included.
const manyFiles = 4096

// driveFiles is R06.
func driveFiles(tr *trial) {
	var most, early int
	stop := poll(20*time.Millisecond, func() { most = max(most, tr.openFiles()) })
	defer stop()
	run := tr.request(tr.attack.code)
	run.Request.Output = func(sandbox.Stream, []byte) { // the sandbox is alive now, even on a busy host
		early = max(early, tr.openFiles())
	}
	tr.judge(tr.do(tr.stepContext(), run))
	stop()
	if most = max(most, early); most == 0 {
		tr.skip("this user cannot see the open files of the sandbox's processes on this host")
	}
	if most > manyFiles {
		tr.fail("the host saw %d descriptors in its processes", most)
	}
	tr.note("at the most %d descriptors", most)
}

func (tr *trial) openFiles() (count int) {
	for _, g := range tr.arena.spy.sightings(tr.nonce) {
		for _, pid := range g.processes() {
			fds, _ := os.ReadDir(fmt.Sprintf("/proc/%d/fd", pid))
			count += len(fds)
		}
	}
	return count
}

// driveCPU is R07.
func driveCPU(tr *trial) {
	r := tr.executeAndJudge(tr.attack.code)
	if r.Usage.CPU < 0 {
		tr.note("this backend does not count processor time here")
		return
	}
	wall := r.Timings.Run.Seconds()
	share := float64(tr.attack.limits.CPUMillis) / 1000
	// 0.1 s for the guest and the start, and one scheduler period at either end.
	if used := r.Usage.CPU.Seconds(); used > wall*share*1.15+0.4 {
		tr.fail("it used %.2f s in %.2f s; its share is %.2f", used, wall, share)
	}
	tr.note("%v of processor time in %v", r.Usage.CPU, r.Timings.Run)
}

// drivePrompt checks the time until a deadline. Other processes of the probe run for ever, so the status shows whether
// a run ends with its main program.
func drivePrompt(tr *trial) {
	r := tr.executeAndJudge(tr.attack.code)
	if r.Status != sandbox.StatusTimeout {
		return
	}
	if took := r.Timings.Run; took < tr.deadline {
		tr.fail("the time-out of %v came after %v", tr.deadline, took)
	}
	tr.checkDuration("the time-out", r.Timings.Run, tr.deadline)
}

// driveEnds is T10.
func driveEnds(tr *trial) {
	type row struct {
		arg    string
		status sandbox.Status
		code   int
		signal int
	}
	ok, failed := sandbox.StatusSucceeded, sandbox.StatusFailed
	late := int(syscall.SIGTERM)
	if tr.arena.options.Contexts { // the interpreter stays, so its code ends as if killed
		late = int(syscall.SIGKILL)
	}
	rows := []row{{"exit0", ok, 0, 0}, {"exit1", failed, 1, 0}, {"exit2", failed, 2, 0}, {"exit124", failed, 124, 0},
		{"exit125", failed, 125, 0}, {"exit126", failed, 126, 0}, {"exit137", failed, 137, 0},
		{"exit143", failed, 143, 0}, {"exit255", failed, 255, 0}, {"exit256", ok, 0, 0}, {"exit259", failed, 3, 0},
		{"sysexit259", failed, 3, 0}, {"sysexit-1", failed, 255, 0}, {"pretend-memory", failed, 137, 0},
		{"raise", failed, 1, 0}, {"child", ok, 0, 0}, {"sleep", sandbox.StatusTimeout, -1, late}}
	for _, s := range []int{1, 2, 3, 4, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 24, 25, 27, 31, 34, 64} {
		r := row{fmt.Sprint("signal", s), sandbox.StatusKilled, -1, s}
		if s == int(syscall.SIGINT) { // an uncaught KeyboardInterrupt, as nobody interrupts a sandbox
			r.status, r.code = failed, 128+s
		}
		rows = append(rows, r)
	}
	for _, w := range rows {
		run := tr.request(tr.attack.code)
		run.Request.Args = []string{w.arg}
		if w.status == sandbox.StatusTimeout {
			run.Request.Timeout = time.Second
		}
		r := tr.do(tr.stepContext(), run)
		if r.Status != w.status || r.ExitCode != w.code || r.Signal != w.signal {
			tr.fail("%s: %s, exit code %d, signal %d; want %+v\n%s", w.arg, r.Status, r.ExitCode, r.Signal, w,
				tail(r.Stderr))
		}
	}
	run := tr.request(tr.attack.code)
	run.Request.Args, run.Spec.Limits.MemoryBytes = []string{"memory"}, 96<<20
	if len(tr.arena.weaker) > 0 {
		tr.note("NOT RUN: the memory row, as this host cannot limit memory")
	} else if r := tr.do(tr.stepContext(), run); r.Status != sandbox.StatusOutOfMemory {
		tr.fail("memory: %s, exit code %d, signal %d: %s", r.Status, r.ExitCode, r.Signal, tail(r.Stderr))
	}
	run = tr.request([]byte("print('ready', flush=True)\ntime.sleep(60)"))
	if r := tr.runUntil("ready", run, func() {}); r.Status != sandbox.StatusCanceled {
		tr.fail("canceled: %s", r.Status)
	}
}

// driveInbound is E12.
func driveInbound(tr *trial) {
	hosts := []string{"127.0.0.1", "::1"}
	if all, err := net.InterfaceAddrs(); err == nil {
		for _, a := range all {
			if ip, ok := a.(*net.IPNet); ok && !ip.IP.IsLinkLocalUnicast() {
				hosts = append(hosts, ip.IP.String())
			}
		}
	}
	const others = 20 // ports that servers of this host may have
	for i := 0; reached(hosts, tr.port) != ""; i++ {
		if tr.port = tr.arena.port(); i == others {
			tr.giveUp("this host answers on every port that was tried")
		}
	}
	ready := false
	r := tr.runUntil("ready", tr.request(tr.attack.code), func() {
		ready = true
		if where := reached(hosts, tr.port); where != "" {
			tr.fail("the sandbox's server is reached at %s", where)
		}
	})
	tr.checkBreaches(r)
	if !ready {
		tr.giveUp("the server inside was never ready: %s %s", r.Status, tail(r.Stderr))
	}
}

// reached returns the host address at which a server answers, or "".
func reached(hosts []string, port int) string {
	for _, host := range hosts {
		conn, err := net.DialTimeout("tcp", net.JoinHostPort(host, strconv.Itoa(port)), time.Second)
		if err == nil {
			defer conn.Close()
			return conn.RemoteAddr().String()
		}
	}
	return ""
}

// driveCore is V05.
func driveCore(tr *trial) {
	before := coresHere()
	r := tr.executeAndJudge(tr.attack.code)
	if r.Signal != int(syscall.SIGABRT) {
		tr.fail("signal %d", r.Signal)
	}
	for _, f := range r.Files {
		if strings.Contains(f.Path, "core") {
			tr.fail("there is a core: %s with %d bytes", f.Path, len(f.Data))
		}
	}
	for _, f := range r.Skipped {
		tr.fail("left out: %+v", f)
	}
	var owners []string
	for _, g := range tr.arena.spy.sightings(tr.nonce) {
		owners = append(owners, g.users...)
	}
	for _, path := range coresHere() {
		info, err := os.Lstat(path)
		if err != nil || slices.Contains(before, path) {
			continue
		}
		// helpers name the user
		fields := append(strings.Split(filepath.Base(path), "."), fmt.Sprint(info.Sys().(*syscall.Stat_t).Uid))
		if len(owners) == 0 {
			tr.doubt("there is a new core on the host, %s, and the host does not show the code's user", path)
		} else if slices.ContainsFunc(fields, func(f string) bool { return slices.Contains(owners, f) }) {
			tr.fail("there is a core on the host: %s", path)
		}
	}
}

// coresHere lists files that look like core dumps, where the kernel might write one of a sandbox.
func coresHere() []string {
	var all []string
	for _, dir := range []string{".", "/", "/tmp", "/var/crash", "/var/lib/systemd/coredump"} {
		names, _ := os.ReadDir(dir)
		for _, n := range names {
			if n.Name() == "core" || strings.HasPrefix(n.Name(), "core.") {
				all = append(all, dir+"/"+n.Name())
			}
		}
	}
	return all
}
