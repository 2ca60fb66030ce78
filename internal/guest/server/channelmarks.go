package server

import "slices"

// mark records how much the process had written to stdout and stderr when the guest read bytes of the channel.
type mark struct {
	end            uint64 // the offset in the channel after the last of these bytes
	stdout, stderr uint64
}

// marks are the marks of a channel's kept bytes, in order.
type marks []mark

// maxMarks bounds the marks of one process. Beyond it the last one grows and covers all later bytes, so it is never too
// low.
const maxMarks = 1 << 10

// add appends the mark of the newest bytes.
func (m *marks) add(n mark) {
	if k := len(*m); k > 0 {
		if last := &(*m)[k-1]; k == maxMarks || last.stdout == n.stdout && last.stderr == n.stderr {
			*last = n
			return
		}
	}
	*m = append(*m, n)
}

// of returns the mark of the kept byte before the offset.
func (m marks) of(end uint64) mark { return m[m.from(end)] }

// forget drops the marks of all bytes before the offset.
func (m *marks) forget(offset uint64) { *m = slices.Delete(*m, 0, m.from(offset+1)) }

// from returns the index of the first mark that reaches the offset.
func (m marks) from(end uint64) int {
	i, _ := slices.BinarySearchFunc(m, end, func(k mark, end uint64) int {
		if k.end < end {
			return -1
		}
		return 1
	})
	return i
}

// written returns how much the process has written to stdout and stderr. The process has a channel, so its outputs are
// pipes.
func (p *process) written() mark {
	p.mu.Lock()
	stdout, stderr := p.outputs[0].file.(*pipeReader), p.outputs[1].file.(*pipeReader)
	p.mu.Unlock()
	return mark{stdout: stdout.written(), stderr: stderr.written()}
}
