package server

import "slices"

// mark says how much had been written to stdout and stderr when bytes of the channel were read.
type mark struct {
	end            uint64 // the offset in the channel after the last of these bytes
	stdout, stderr uint64
}

// marks are those of the bytes of a channel that are kept, in order.
type marks []mark

// maxMarks bounds the marks of one process. Beyond it the last one covers all later bytes too: it grows, so it is never too low.
const maxMarks = 1 << 10

// add adds the mark of the newest bytes.
func (m *marks) add(n mark) {
	if k := len(*m); k > 0 {
		if last := &(*m)[k-1]; k == maxMarks || last.stdout == n.stdout && last.stderr == n.stderr {
			*last = n
			return
		}
	}
	*m = append(*m, n)
}

// of returns the mark of the byte before the offset, which is kept.
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

// written returns what is written to stdout and stderr by now. Only for a process with a channel, whose outputs are pipes.
func (p *process) written() mark {
	return mark{stdout: p.outputs[0].file.(*gatherer).written(), stderr: p.outputs[1].file.(*gatherer).written()}
}
