//go:build linux

package seccomp

import "syscall"

// Answer is the filter's answer to a call: Allow, Skip, or the errno with which it fails.
type Answer uint16

const (
	Allow Answer = 0      // lets the call through
	Skip  Answer = 0xffff // returns 0 without executing the call
)

// Errno is the errno that the caller sees: 0 if the call is allowed or skipped.
func (a Answer) Errno() syscall.Errno {
	if a == Skip {
		return 0
	}
	return syscall.Errno(a)
}

// Rule refuses or skips a call by the value of one 32-bit argument. A call's rules are tried in order; the first match
// gives the answer, and without a match the call is allowed.
type Rule struct {
	Arg    int // 0 to 5
	Mask   uint32
	Op     Op
	Values []uint32 // for In and NotIn
	Answer Answer
	When   *Guard // the rule applies only if this matches too; nil always matches
}

// Guard matches if a 32-bit argument has one value. It is for arguments whose meaning depends on another one.
type Guard struct {
	Arg   int
	Value uint32
}

// Op compares the masked argument with a rule's values.
type Op uint8

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

type Options struct {
	// HostWritable means that a host directory is mounted read-write. Files there cannot get set-id bits then, as they
	// outlive the sandbox and other host users could run them.
	HostWritable bool
	// NoNewPrograms means that only listed programs may be executed: memfd_create and execution by descriptor are
	// refused.
	NoNewPrograms bool
	// NestedFilters lets the code install its own seccomp filters and Landlock rules, as browsers do. Nothing counts
	// compiled filters, and the whole host shares one limit (net.core.bpf_jit_limit).
	NestedFilters bool
}

// Policy holds the filter's answers, by system call number.
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

	// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. CLONE_NEWTIME (0x80) is in clone's signal byte
	// and exists only for unshare and clone3, which are refused entirely.
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
		p.calls[sysOpenat2] = call{answer: enosys} // its mode is behind a pointer; callers fall back to openat
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

// Answer is the filter's answer to a call of this architecture, from the policy's tables, to compare with that of the
// compiled program.
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
