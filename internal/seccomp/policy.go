//go:build linux

package seccomp

import "syscall"

// Answer is what the filter does with a call: zero allows it, another value fails it with that errno.
type Answer uint16

// Allow lets the call through.
const Allow Answer = 0

// Rule refuses a call by the value of one 32-bit argument. The rules of a call are tried in order; the first that holds gives
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

	anyBits = ^uint32(0)

	// CLONE_NEWNS, NEWCGROUP, NEWUTS, NEWIPC, NEWUSER, NEWPID, NEWNET. CLONE_NEWTIME (0x80) lies in the signal byte of clone and
	// exists for unshare and clone3 only, which are refused whole.
	cloneNamespaces = 0x7e020000

	setIDBits = 0o6000
)

// New returns the policy for this architecture.
func New(o Options) *Policy {
	p := &Policy{Newest: newestCall, calls: make(map[int]call, len(allowed)+len(allowedHere))}
	for _, list := range [][]int{allowed, allowedHere} {
		for _, nr := range list {
			p.calls[nr] = call{answer: Allow}
		}
	}
	for _, nr := range absent {
		p.calls[nr] = call{answer: enosys}
	}
	for nr, rules := range byArgument() {
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

// Allows says whether the policy lets a call through, at least with some arguments.
func (p *Policy) Allows(nr int) bool {
	c, ok := p.calls[nr]
	return ok && nr <= p.Newest && c.answer == Allow
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
