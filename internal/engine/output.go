package engine

import (
	"errors"
	"math"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// output receives what a run writes. It keeps head and tail, passes the first bytes of each stream on as they arrive,
// and ends a runaway.
type output struct {
	limit   int64 // bytes of each stream to pass on, and to keep
	runaway int64 // bytes of one stream that end the run
	forward sandbox.OutputFunc
	gaps    bool // output that an earlier server received may be missing
	partly  bool // less than limit is kept

	stdout, stderr *capture
}

func newOutput(limit int64, forward sandbox.OutputFunc) *output {
	return &output{
		limit:   limit,
		runaway: max(outputFactor*limit, outputFloor),
		forward: forward,
		stdout:  newCapture(limit),
		stderr:  newCapture(limit),
	}
}

// backgroundKept limits what is kept of a stream of a run in the background or with a terminal, for hints and the end
// of its log: its followers have the output from the log, and thousands of such runs may live.
const backgroundKept = 64 << 10

func (o *output) keepPart() {
	if o.limit > backgroundKept {
		o.partly, o.stdout, o.stderr = true, newCapture(backgroundKept), newCapture(backgroundKept)
	}
}

// beyond returns how many bytes of a stream its reader does not get.
func (o *output) beyond(c *sandbox.Captured, all *capture) int64 {
	if o.partly {
		return max(all.total-o.limit, 0)
	}
	return c.Dropped
}

var (
	errRunaway = errors.New("the output went far past its limit")
	errGap     = errors.New("output from the guest is missing")
)

// say writes the message of a program that was not started to stderr, as a shell would.
func (o *output) say(line string) {
	o.show(sandbox.Stderr, []byte(line))
}

// show passes on output that did not come from the guest now.
func (o *output) show(stream sandbox.Stream, data []byte) {
	c := o.stdout
	if stream == sandbox.Stderr {
		c = o.stderr
	}
	_ = o.take(guest.Output{Stream: stream, Offset: uint64(c.total), Data: data}) // far below the limit
}

// take receives one piece from the guest. An error ends the stream.
func (o *output) take(m guest.Output) error {
	c := o.stdout
	if m.Stream == sandbox.Stderr {
		c = o.stderr
	}
	before := c.total
	if m.Offset > math.MaxInt64-uint64(len(m.Data)) { // a count of bytes must not wrap
		return errGap
	}
	if m.Offset != uint64(before) && (!o.gaps || m.Offset < uint64(before)) { // the guest must not drop any
		return errGap
	}
	before = int64(m.Offset)
	c.skip(before)
	c.write(m.Data)
	if o.forward != nil && before < o.limit {
		o.forward(m.Stream, m.Data[:min(int64(len(m.Data)), o.limit-before)])
	}
	if c.total > o.runaway {
		return errRunaway
	}
	return nil
}
