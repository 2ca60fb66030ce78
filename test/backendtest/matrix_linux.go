package backendtest

import (
	_ "embed"
	"fmt"
	"os"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/host/seccomp"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// matrixPy asks the filter in a sandbox for its verdict on each call.
//
//go:embed matrix.py
var matrixPy string

// Bounds of the matrix.
const (
	pastNewest   = 60         // numbers beyond the newest that the policy knows
	x32Call      = 0x40000000 // marks the numbers of the x32 ABI
	mostToldOf   = 20         // wrong calls to print
	matrixOutput = 8 << 20
)

// matrixVariants are the policy's variants.
//
// All have nested filters, as the matrix itself needs one; K16 of the corpus tests that the others have none.
var matrixVariants = []struct {
	name    string
	options seccomp.Options
}{
	{"plain", seccomp.Options{NestedFilters: true}},
	{"host-writable", seccomp.Options{HostWritable: true, NestedFilters: true}},
	{"no-new-programs", seccomp.Options{NoNewPrograms: true, NestedFilters: true}},
	{"both", seccomp.Options{HostWritable: true, NoNewPrograms: true, NestedFilters: true}},
}

// Matrix checks every system call number, and the edges of every argument rule, in sandboxes of each policy variant.
// The filter's verdict must equal the policy's tables: allowed, or refused with that errno; a foreign architecture ends
// the process. No call is made: see matrix.py.
func Matrix(t *testing.T, open Open) {
	if runtime.GOARCH != "amd64" {
		t.Skip("SKIPPED, NOT TESTED: the matrix of system calls exists for amd64 only")
	}
	bounds := sandbox.HasFeature(open(t), sandbox.FeatureCommands)
	for _, v := range matrixVariants {
		if v.options.NoNewPrograms && !bounds {
			continue // no command of this backend is to be started once
		}
		t.Run(v.name, func(t *testing.T) {
			s := &suite{open: open, backend: open(t)}
			s.engine = s.newEngine(t, engine.Config{})
			m := &matrix{T: t, variant: v.name, policy: seccomp.New(v.options),
				engines: sandbox.HasFeature(s.backend, sandbox.FeatureImage)}
			m.vectors()
			m.judge(s.run(t, m.run(v.options)))
		})
	}
}

// refusedForeign is the result of a call by the interrupt of 32-bit programs: the filter ends the process (SIGSYS), or
// the host's kernel has no such calls (ia32_emulation=0: SIGSEGV). gVisor has none.
var refusedForeign = map[sandbox.Kernel][]string{
	sandbox.KernelShared:    {"signal 31", "signal 11"},
	sandbox.KernelUserSpace: {"signal 31", "signal 11", "answer -38"},
}

// newestOfEngines is mseal, of Linux 6.10: the first allowed call unknown to libseccomp 2.5.4 (Debian 12), which
// engines use. The engine's filter answers such calls as absent.
const newestOfEngines = 462

// matrix is one policy and the calls to check.
type matrix struct {
	*testing.T
	variant string
	policy  *seccomp.Policy
	calls   []askedCall
	engines bool // an engine's filter applies in addition to the policy's
}

// askedCall is a system call with its arguments.
type askedCall struct {
	nr   int
	args [6]uint64
}

func (m *matrix) add(nr int, args ...uint64) {
	c := askedCall{nr: nr}
	copy(c.args[:], args)
	m.calls = append(m.calls, c)
}

func (m *matrix) vectors() {
	for nr := range m.policy.Newest + pastNewest {
		if pastEveryFilter(nr) {
			continue
		}
		for _, args := range m.policy.Edges(nr) {
			m.calls = append(m.calls, askedCall{nr, args})
		}
		m.add(nr|x32Call, 1, 1, 1, 1, 1, 1)
	}
	for _, nr := range []int{1000, 1 << 20, x32Call - 1, 1<<31 - 1} {
		m.add(nr)
	}
	for family := range uint64(48) {
		for _, kind := range []uint64{0, unix.SOCK_STREAM, unix.SOCK_DGRAM, unix.SOCK_RAW, unix.SOCK_SEQPACKET,
			unix.SOCK_STREAM | unix.SOCK_CLOEXEC | unix.SOCK_NONBLOCK} {
			for _, protocol := range []uint64{0, unix.IPPROTO_TCP, unix.IPPROTO_UDP, unix.IPPROTO_ICMP,
				unix.IPPROTO_SCTP,
				unix.IPPROTO_MPTCP} {
				m.add(unix.SYS_SOCKET, family, kind, protocol)
			}
		}
	}
	for bit := range 64 {
		m.add(unix.SYS_CLONE, 1<<bit|uint64(unix.SIGCHLD))
	}
}

// pastEveryFilter reports whether the kernel lets a call bypass all filters: uretprobe and uprobe (Linux 6.14 and
// 6.18), by which an administrator's probes return. From anywhere else they end the process.
func pastEveryFilter(nr int) bool { return nr == 335 || nr == 336 }

func (m *matrix) run(o seccomp.Options) engine.OneShot {
	m.Helper()
	r := engine.OneShot{Request: sandbox.Request{Command: []string{"python3", "-I", "-S", "-c", matrixPy},
		Timeout: stepTimeout}}
	r.Spec.Limits.OutputBytes, r.Spec.NestedFilters = matrixOutput, o.NestedFilters
	if o.NoNewPrograms {
		r.Spec.Commands = []string{"python3"}
	}
	var b strings.Builder
	for _, c := range m.calls {
		if m.policy.Answer(c.nr, c.args).Errno() == syscall.ENOSYS {
			b.WriteByte('!')
		}
		fmt.Fprintf(&b, "%x", c.nr)
		for _, a := range c.args {
			fmt.Fprintf(&b, " %x", a)
		}
		b.WriteByte('\n')
	}
	r.Request.Files = []sandbox.File{{Path: "vectors.txt", Data: []byte(b.String())}}
	if o.HostWritable {
		dir, err := os.MkdirTemp("", "fumehood-matrix-") // sandboxes' ids cannot enter t.TempDir
		if err != nil {
			m.Fatal(err)
		}
		m.Cleanup(func() { _ = os.RemoveAll(dir) })
		r.Spec.Workspace = dir
	}
	return r
}

// judge compares the answers with the policy.
func (m *matrix) judge(r *sandbox.Result) {
	m.Helper()
	wantStatus(m.T, r, sandbox.StatusSucceeded)
	var way, foreign, made string
	var said []syscall.Errno
	for line := range strings.Lines(string(r.Stdout.Head)) {
		word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
		switch word {
		case "way":
			way = rest
		case "foreign":
			foreign = rest
		case "made":
			made = rest
		case "errno":
			n, err := strconv.Atoi(rest)
			if err != nil {
				m.Fatal(err)
			}
			said = append(said, syscall.Errno(n))
		}
	}
	if len(said) != len(m.calls) {
		m.Fatalf("of %d calls %d were reported: %.500s %.500s", len(m.calls), len(said), r.Stdout.Head, r.Stderr.Head)
	}
	allowed := map[string]syscall.Errno{"notified": unix.EHWPOISON, "traced": syscall.ENOSYS}[way]
	if allowed == 0 {
		m.Fatalf("the way is %q", way)
	}
	if way != "notified" && r.Effective.Kernel == sandbox.KernelShared {
		m.Errorf("this kernel notifies of no calls, so allowed calls look like those answered with ENOSYS")
	}
	if way != "notified" && made != "answer none" {
		m.Errorf("calls that must be absent were made (index in the list: errno): %s", made)
	}
	if !slices.Contains(refusedForeign[r.Effective.Kernel], foreign) {
		m.Errorf("a system call of 32-bit programs: %s", foreign)
	}
	for _, other := range matrixVariants {
		if p := seccomp.New(other.options); other.name != m.variant &&
			!slices.ContainsFunc(m.calls, func(c askedCall) bool {
				return p.Answer(c.nr, c.args) != m.policy.Answer(c.nr, c.args)
			}) {
			m.Errorf("the calls do not distinguish this policy from that of %s", other.name)
		}
	}
	counts := m.compare(said, allowed)
	m.Logf("%s: %d calls: %v; a foreign call: %s", way, len(m.calls), counts, foreign)
}

// compare compares the errnos with the policy, and counts the policy's verdicts. allowed is the errno of allowed calls.
func (m *matrix) compare(said []syscall.Errno, allowed syscall.Errno) map[syscall.Errno]int {
	m.Helper()
	counts := map[syscall.Errno]int{}
	wrong := 0
	for i, c := range m.calls {
		answer := m.policy.Answer(c.nr, c.args)
		want := answer.Errno()
		if answer == seccomp.Allow {
			want = allowed
		}
		counts[want]++
		if said[i] == want || m.engines && c.nr >= newestOfEngines && c.nr < x32Call && said[i] == syscall.ENOSYS {
			continue
		}
		if wrong++; wrong <= mostToldOf {
			m.Errorf("call %d with %x: the filter says %v, the policy %v (allowed is %v here)", c.nr, c.args, said[i],
				want,
				allowed)
		}
	}
	if wrong > mostToldOf {
		m.Errorf("and %d more", wrong-mostToldOf)
	}
	if counts[allowed] == 0 || counts[syscall.EPERM] == 0 || counts[syscall.ENOSYS] == 0 {
		m.Errorf("verdicts: %v", counts)
	}
	return counts
}
