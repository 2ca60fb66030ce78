package attack

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/seccomp"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// vector is one system call with its arguments.
type vector struct {
	nr   uint64
	args [6]uint64
}

// beyondNewest is how many numbers beyond the newest known are tried.
const beyondNewest = 40

// callVectors returns boundary arguments for every system call, and every relevant value for those that the policy
// decides by an argument, with noise in the bits that the kernel ignores.
func callVectors(p *seccomp.Policy) []vector {
	var all []vector
	const high = uint64(0xffffffff) << 32
	boundary := [][6]uint64{{}, {^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0), ^uint64(0)},
		{1, 1, 1, 1, 1, 1}, {high, high, high, high, high, high}}
	for nr := range p.Newest + beyondNewest {
		for _, args := range boundary {
			if !signals(nr) || args == ([6]uint64{}) {
				all = append(all, vector{uint64(nr), args})
			}
		}
	}
	add := func(nr, arg int, values ...uint64) {
		for _, v := range values {
			for _, noise := range []uint64{0, uint64(rand.Uint32()|1) << 32} {
				var args [6]uint64
				args[arg] = v | noise
				all = append(all, vector{uint64(nr), args})
			}
		}
	}
	for family := range uint64(48) {
		add(unix.SYS_SOCKET, 0, family)
	}
	for kind := range uint64(12) {
		all = append(all, vector{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, kind, 0}},
			vector{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, kind | unix.SOCK_CLOEXEC, 0}})
		for _, protocol := range []uint64{1, 2, 6, 17, 33, 58, 132, 136, 255, 262} {
			all = append(all, vector{unix.SYS_SOCKET, [6]uint64{unix.AF_INET, kind, protocol}})
		}
	}
	for bit := range 32 {
		add(unix.SYS_CLONE, 0, 1<<bit&^0x7f|0x11) // SIGCHLD
		add(unix.SYS_PERSONALITY, 0, 1<<bit)
		add(unix.SYS_UNSHARE, 0, 1<<bit)
	}
	add(unix.SYS_PERSONALITY, 0, 0, 8, 0x20000, 0x20008, 0xffffffff)
	add(unix.SYS_IOCTL, 1, unix.TIOCSTI, 0x541c, unix.TIOCSETD, unix.TIOCCONS, unix.FS_IOC_SETFLAGS, 0x401c5820,
		unix.TIOCGWINSZ, 0x541b, unix.TCGETS)
	for kind := range uint64(16) {
		add(unix.SYS_MKNODAT, 2, kind<<12|0o644)
	}
	for _, nr := range []uint64{0x40000000, 0x40000000 | 59, 0x40000000 | 165, 0x40000000 | 520, 1000, 1 << 20, 1 << 31,
		^uint64(0) >> 33} { // of other ABIs, and invalid
		all = append(all, vector{nr: nr})
	}
	return all
}

// signals reports whether a call could signal the prober itself. Such calls are made only with signal 0.
func signals(nr int) bool {
	return slices.Contains([]int{unix.SYS_KILL, unix.SYS_TKILL, unix.SYS_TGKILL, unix.SYS_RT_SIGQUEUEINFO,
		unix.SYS_RT_TGSIGQUEUEINFO, unix.SYS_PIDFD_SEND_SIGNAL}, nr)
}

// pastFilters reports whether the kernel lets a call bypass every filter: uretprobe and uprobe of amd64 (Linux 6.14 and
// 6.18), by which an administrator's probes return. From anywhere else they end the process or fail.
func pastFilters(nr uint64) bool { return runtime.GOARCH == "amd64" && (nr == 335 || nr == 336) }

// harmful are the calls that are not made without isolation.
var harmful = []int{unix.SYS_REBOOT, unix.SYS_KEXEC_LOAD, unix.SYS_KEXEC_FILE_LOAD, unix.SYS_INIT_MODULE,
	unix.SYS_FINIT_MODULE, unix.SYS_DELETE_MODULE,
	unix.SYS_SWAPON, unix.SYS_SWAPOFF, unix.SYS_ACCT, unix.SYS_SETTIMEOFDAY, unix.SYS_CLOCK_SETTIME, unix.SYS_ADJTIMEX,
	unix.SYS_CLOCK_ADJTIME, unix.SYS_QUOTACTL,
	unix.SYS_QUOTACTL_FD, unix.SYS_VHANGUP, unix.SYS_SYSLOG, unix.SYS_SYNC, unix.SYS_BPF}

func writeVectors(all []vector) string {
	var b strings.Builder
	for _, v := range all {
		fmt.Fprintf(&b, "%x", v.nr)
		for _, a := range v.args {
			fmt.Fprintf(&b, " %x", a)
		}
		b.WriteByte('\n')
	}
	return b.String()
}

// readErrnos parses the prober's output: each call's errno, 0 on success, -1 if it never returned.
func (tr *trial) readErrnos(out string, n int) []int {
	errnos := make([]int, n)
	seen := 0
	for s := bufio.NewScanner(strings.NewReader(out)); s.Scan(); {
		var nr, i, errno int
		if _, err := fmt.Sscanf(s.Text(), "%x %d %d", &nr, &i, &errno); err == nil && i >= 0 && i < n {
			errnos[i] = errno
			seen++
		}
	}
	if seen != n {
		tr.giveUp("%d of %d calls were reported: %.500s", seen, n, out)
	}
	return errnos
}

// leastReached is how many refused calls must reach the kernel without isolation, or the prober proves nothing.
const leastReached = 100

// ownPolicy are the backends whose sandboxes filter calls by package seccomp.
var ownPolicy = []string{"native", "gvisor", "docker", "podman"}

// driveCalls is K15. The control shows that the same prober reaches the kernel without a filter.
func driveCalls(tr *trial) {
	if name := tr.arena.spy.Name(); !slices.Contains(ownPolicy, name) {
		tr.skip("%s does not use this system call policy", name)
	}
	if tr.userSpace() && !tr.arena.alone {
		tr.skip("it takes a user-space kernel most of a minute, so it is only made alone")
	}
	policy := seccomp.New(seccomp.Options{})
	vectors := callVectors(policy)
	errnos := tr.makeCalls(vectors)
	tr.repeatSilentCalls(policy, vectors, errnos)
	refused := 0
	for i, v := range vectors {
		want := policy.Answer(int(int32(v.nr)), v.args)
		if want == seccomp.Allow || pastFilters(v.nr) {
			continue
		}
		if refused++; errnos[i] != int(want.Errno()) {
			tr.fail("call %d with %x: errno %d, the policy says %d", v.nr, v.args, errnos[i], want.Errno())
		}
	}
	tr.note("%d calls, %d of them refused", len(vectors), refused)
	if tr.arena.options.WithoutWalls != nil {
		tr.repeatWithoutWalls(policy, vectors, errnos)
	}
}

// repeatSilentCalls repeats refused calls without an answer, with a hundred times the time-out: a busy host can delay
// one beyond the prober's.
func (tr *trial) repeatSilentCalls(policy *seccomp.Policy, vectors []vector, errnos []int) {
	var again []vector
	var index []int
	for i, v := range vectors {
		if errnos[i] < 0 && policy.Answer(int(int32(v.nr)), v.args) != seccomp.Allow && !pastFilters(v.nr) {
			again, index = append(again, v), append(index, i)
		}
	}
	if len(again) == 0 {
		return
	}
	for i, errno := range tr.makeCalls(again, "CALL_TIMEOUT=10") {
		errnos[index[i]] = errno
	}
}

// callTime bounds thousands of calls, each in its own process.
const callTime = 5 * time.Minute

// makeCalls makes the calls in a sandbox and returns their errnos.
func (tr *trial) makeCalls(vectors []vector, env ...string) []int {
	run := tr.request(tr.attack.code)
	run.Request.Env = append(run.Request.Env, env...)
	run.Request.Files = []sandbox.File{{Path: "vectors.txt", Data: []byte(writeVectors(vectors))}}
	run.Request.Timeout = callTime
	run.Spec.Limits.OutputBytes = 4 << 20
	run.Spec.Limits.Pids = 512
	ctx, cancel := context.WithTimeout(tr.ctx, callTime+stepTimeout)
	defer cancel()
	r := tr.do(ctx, run)
	tr.judge(r)
	if !tr.isClear() {
		tr.giveUp("the prober failed to make the calls")
	}
	return tr.readErrnos(string(r.Stdout.Head)+string(r.Stdout.Tail), len(vectors))
}

// newestOfEngines is mseal, of Linux 6.10: the first allowed call unknown to libseccomp 2.5.4 (Debian 12), which
// engines use.
const newestOfEngines = 462

// repeatWithoutWalls repeats the calls without a filter, except harmful ones.
func (tr *trial) repeatWithoutWalls(policy *seccomp.Policy, vectors []vector, walled []int) {
	var kept []vector
	var index []int
	for i, v := range vectors {
		if !slices.Contains(harmful, int(v.nr)) && !signals(int(v.nr)) {
			kept, index = append(kept, v), append(index, i)
		}
	}
	out, err := tr.arena.options.WithoutWalls(tr.attack, writeVectors(kept))
	tr.need(err)
	errnos := tr.readErrnos(out, len(kept))
	reached := 0
	for i, v := range kept {
		answer := policy.Answer(int(int32(v.nr)), v.args)
		switch {
		case answer != seccomp.Allow && errnos[i] != int(answer.Errno()):
			reached++
		// the engine's filter answers ENOSYS to calls unknown to its library
		case tr.isContainer() && int(v.nr) >= newestOfEngines && answer == seccomp.Allow:
		case !tr.userSpace() && answer == seccomp.Allow && walled[index[i]] == int(syscall.ENOSYS) &&
			errnos[i] != int(syscall.ENOSYS):
			tr.fail("call %d with %x is allowed by the policy, but absent in the sandbox", v.nr, v.args)
		}
	}
	if reached < leastReached {
		tr.fail("without isolation only %d of the refused calls reach the kernel: the prober proves nothing", reached)
	}
	tr.note("without isolation %d of the refused calls reach the kernel", reached)
}
