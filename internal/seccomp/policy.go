//go:build linux

package seccomp

import "syscall"

// Answer is what the filter does with a call: Allow, Skip, or the errno with which it fails.
type Answer uint16

const (
	Allow Answer = 0      // lets the call through
	Skip  Answer = 0xffff // answers with 0, as a call that succeeded, and carries nothing out
)

// Errno is what the caller sees of an answer: 0 where the call is allowed or skipped.
func (a Answer) Errno() syscall.Errno {
	if a == Skip {
		return 0
	}
	return syscall.Errno(a)
}

// Rule refuses or skips a call by the value of one 32-bit argument. The rules of a call are tried in order; the first that holds gives
// the answer, and where none holds the call is allowed.
type Rule struct {
	Arg    int // 0 to 5
	Mask   uint32
	Op     Op
	Values []uint32 // for In and NotIn
	Answer Answer
	When   *Guard // the rule counts only where this holds too; nil is always
}

// Guard holds where a 32-bit argument has one value. It is for arguments whose meaning depends on another one.
type Guard struct {
	Arg   int
	Value uint32
}

// Op compares the masked argument with the values of a rule.
type Op uint8

// The comparisons.
const (
	In     Op = iota // equal to one of the values
	NotIn            // equal to none of the values
	AnyBit           // not zero
)

func (r Rule) holds(args [6]uint64) bool {
	if r.When != nil && uint32(args[r.When.Arg]) != r.When.Value {
		return false
	}
	v := uint32(args[r.Arg]) & r.Mask
	if r.Op == AnyBit {
		return v != 0
	}
	for _, want := range r.Values {
		if v == want {
			return r.Op == In
		}
	}
	return r.Op == NotIn
}

// Options choose between the variants of the policy.
type Options struct {
	// HostWritable is set where a host directory is mounted read-write: set-id bits then cannot be given to files, as the
	// files outlive the sandbox and other users of the host could run them.
	HostWritable bool
	// NoNewPrograms is set where only listed programs may be executed: code cannot be brought in by memfd_create or executed by
	// descriptor alone.
	NoNewPrograms bool
	// NestedFilters lets the code put seccomp filters and Landlock rules of its own on itself, as browsers do. What filters are compiled
	// to is counted to nobody, and all of the host has one bound for it (net.core.bpf_jit_limit).
	NestedFilters bool
}

// Policy is what the filter answers, by system call number.
type Policy struct {
	Newest int // numbers above it are ENOSYS
	calls  map[int]call
}

type call struct {
	answer Answer
	rules  []Rule
}

const (
	eperm        = Answer(syscall.EPERM)
	enosys       = Answer(syscall.ENOSYS)
	eafnosupport = Answer(syscall.EAFNOSUPPORT)
	eproto       = Answer(syscall.EPROTONOSUPPORT)
	einval       = Answer(syscall.EINVAL)
	enomem       = Answer(syscall.ENOMEM)
	enoprotoopt  = Answer(syscall.ENOPROTOOPT)
	eopnotsupp   = Answer(syscall.EOPNOTSUPP)

	anyBits = ^uint32(0)

	// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. CLONE_NEWTIME (0x80) lies in the signal byte of clone and
	// exists for unshare and clone3 only, which are refused whole.
	cloneNamespaces = 0x7e020000

	setIDBits = 0o6000
)

// New returns the policy for this architecture.
func New(o Options) *Policy {
	p := &Policy{Newest: newestCall, calls: map[int]call{}}
	for _, g := range allowed {
		p.answer(Allow, g.calls)
	}
	p.answer(Allow, allowedHere)
	p.answer(enosys, absent)
	p.answer(eopnotsupp, unsupported)
	p.answer(einval, pinning)
	p.answer(Skip, skipped)
	p.answer(enosys, nested)
	if o.NestedFilters {
		p.answer(Allow, nested)
	}
	if !o.HostWritable {
		p.answer(Skip, flushes)
	}
	for nr, rules := range byArgument(o) {
		p.calls[nr] = call{rules: rules}
	}
	if o.HostWritable {
		for nr, rule := range setIDModes() {
			p.calls[nr] = call{rules: append(p.calls[nr].rules, rule)}
		}
		p.calls[sysOpenat2] = call{answer: enosys} // its mode lies behind a pointer; callers fall back to openat
	}
	if o.NoNewPrograms {
		p.calls[sysMemfdCreate] = call{answer: eperm}
		p.calls[sysExecveat] = call{answer: enosys}
	}
	return p
}

func (p *Policy) answer(a Answer, calls []int) {
	for _, nr := range calls {
		p.calls[nr] = call{answer: a}
	}
}

// Answers says whether the policy lets a call through or skips it, at least with some arguments: a filter behind which this one stands
// must let it through.
func (p *Policy) Answers(nr int) bool {
	c, ok := p.calls[nr]
	return ok && nr <= p.Newest && (c.answer == Allow || c.answer == Skip)
}

// Answer says what the filter answers to a call of this architecture. It is the policy's own reading of its tables, for the
// test that compares the compiled program with it.
func (p *Policy) Answer(nr int, args [6]uint64) Answer {
	if nr < 0 || nr > p.Newest {
		return enosys
	}
	c, ok := p.calls[nr]
	if !ok {
		return eperm
	}
	for _, r := range c.rules {
		if r.holds(args) {
			return r.Answer
		}
	}
	return c.answer
}
