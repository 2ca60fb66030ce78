//go:build linux && (amd64 || arm64)

package seccomp

import (
	"encoding/binary"
	"slices"
	"sort"

	"golang.org/x/sys/unix"
)

// Offsets in struct seccomp_data (linux/seccomp.h). Arguments are 64 bits, little-endian on both supported
// architectures, so the low half comes first.
const (
	offsetNr   = 0
	offsetArch = 4
	offsetArgs = 16
)

const (
	retAllow = unix.SECCOMP_RET_ALLOW
	retErrno = unix.SECCOMP_RET_ERRNO
	retKill  = unix.SECCOMP_RET_KILL_PROCESS
)

func (a Answer) ret() uint32 {
	if a == Allow {
		return retAllow
	}
	return retErrno | uint32(a.Errno())
}

// Compile returns the program for seccomp(2), as an array of struct sock_filter in memory order.
func (p *Policy) Compile() []byte {
	var a assembler
	a.load(offsetArch)
	a.jumpIf(unix.BPF_JEQ, auditArch, 1, 0)
	a.ret(retKill)
	a.load(offsetNr)
	if x32Bit != 0 {
		a.jumpIf(unix.BPF_JGE, x32Bit, 0, 1)
		a.ret(enosys.ret())
	}
	a.search(p.spans())
	return a.bytes()
}

// span is a run of consecutive numbers with the same answer.
type span struct {
	from int // up to the next span's from
	call call
}

// spans divides the numbers from 0 to infinity into runs, so that the search is shallow.
func (p *Policy) spans() []span {
	var out []span
	for nr := 0; nr <= p.Newest; nr++ {
		c, ok := p.calls[nr]
		if !ok {
			c = call{answer: eperm}
		}
		if n := len(out); n > 0 && len(c.rules) == 0 && len(out[n-1].call.rules) == 0 &&
			out[n-1].call.answer == c.answer {
			continue
		}
		out = append(out, span{nr, c})
	}
	return append(out, span{p.Newest + 1, call{answer: enosys}})
}

// assembler builds the program from its end, so that every jump distance is known when it is emitted.
type assembler struct {
	head []unix.SockFilter // straight-line code before the search
}

func (a *assembler) load(offset uint32) {
	a.head = append(a.head, unix.SockFilter{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: offset})
}

func (a *assembler) jumpIf(op uint16, k uint32, yes, no uint8) {
	a.head = append(a.head, unix.SockFilter{Code: unix.BPF_JMP | op | unix.BPF_K, Jt: yes, Jf: no, K: k})
}

func (a *assembler) ret(k uint32) {
	a.head = append(a.head, unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: k})
}

// search appends a balanced tree of comparisons over the spans.
func (a *assembler) search(spans []span) { a.head = append(a.head, tree(spans)...) }

func tree(spans []span) []unix.SockFilter {
	if len(spans) == 1 {
		return leaf(spans[0].call)
	}
	middle := len(spans) / 2
	low, high := tree(spans[:middle]), tree(spans[middle:])
	pivot := uint32(spans[middle].from)
	// A conditional jump reaches 255 instructions; the unconditional one after it reaches any.
	code := []unix.SockFilter{
		{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jt: 0, Jf: 1, K: pivot},
		{Code: unix.BPF_JMP | unix.BPF_JA, K: uint32(len(low))},
	}
	if len(low) <= 255 {
		code = []unix.SockFilter{{Code: unix.BPF_JMP | unix.BPF_JGE | unix.BPF_K, Jt: uint8(len(low)), Jf: 0, K: pivot}}
	}
	return slices.Concat(code, low, high)
}

// leaf answers one call: its rules in order, then its answer. It may overwrite the accumulator, as nothing follows.
func leaf(c call) []unix.SockFilter {
	end := []unix.SockFilter{{Code: unix.BPF_RET | unix.BPF_K, K: c.answer.ret()}}
	for _, r := range slices.Backward(c.rules) {
		end = slices.Concat(r.compile(), end)
	}
	return end
}

// compile emits the rule and, if it has a guard, a jump over it.
func (r Rule) compile() []unix.SockFilter {
	code := r.body()
	if r.When == nil {
		return code
	}
	guard := []unix.SockFilter{
		{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(offsetArgs + 8*r.When.Arg)},
		{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jf: uint8(len(code)), K: r.When.Value},
	}
	return append(guard, code...)
}

// body emits code that loads the argument, masks it, and returns the rule's answer if it matches.
func (r Rule) body() []unix.SockFilter {
	code := []unix.SockFilter{{Code: unix.BPF_LD | unix.BPF_W | unix.BPF_ABS, K: uint32(offsetArgs + 8*r.Arg)}}
	if r.Mask != anyBits {
		code = append(code, unix.SockFilter{Code: unix.BPF_ALU | unix.BPF_AND | unix.BPF_K, K: r.Mask})
	}
	ret := unix.SockFilter{Code: unix.BPF_RET | unix.BPF_K, K: r.Answer.ret()}
	if r.Op == AnyBit {
		return append(code, unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, Jt: 1, Jf: 0, K: 0}, ret)
	}
	values := slices.Clone(r.Values)
	sort.Slice(values, func(i, j int) bool { return values[i] < values[j] })
	for i, v := range values {
		rest := uint8(len(values) - 1 - i) // comparisons after this one
		j := unix.SockFilter{Code: unix.BPF_JMP | unix.BPF_JEQ | unix.BPF_K, K: v}
		switch last := rest == 0; {
		case r.Op == In && last:
			j.Jf = 1 // over the return
		case r.Op == In:
			j.Jt = rest // to the return
		default: // NotIn
			j.Jt = rest + 1 // over the return
		}
		code = append(code, j)
	}
	return append(code, ret)
}

func (a *assembler) bytes() []byte {
	b := make([]byte, 0, 8*len(a.head))
	for _, f := range a.head {
		b = binary.NativeEndian.AppendUint16(b, f.Code)
		b = append(b, f.Jt, f.Jf)
		b = binary.NativeEndian.AppendUint32(b, f.K)
	}
	return b
}
