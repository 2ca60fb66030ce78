package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	clockAfter  = 2 * time.Second // shorter runs show no clock
	clockEvery  = time.Second
	statusWidth = 60 // keeps a status on one line of a terminal
)

var errReaderGone = errors.New("the reader of the output has closed it")

// writeError classifies an error of our output: a lost reader is the normal end of a pipeline, all others are failures.
func writeError(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%w: %w", errReaderGone, err)
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "write the program's output", Err: err}
}

// output passes a program's output on as it arrives. On a terminal, it shows a clock while the program is silent.
type output struct {
	app     *app
	writers [3]io.Writer     // by stream
	passed  [3]int64         // bytes passed on, by stream
	gaps    map[string]int64 // bytes that were not shown, by the name of a stream that dropped some

	mu      sync.Mutex // guards all below
	step    string     // the step before the program starts
	clock   bool       // the clock is on the terminal's last line
	midLine [3]bool    // by stream: its last line is incomplete
	err     error      // of the first failed write

	done  chan struct{} // closed to stop the clock
	ticks sync.WaitGroup
}

func (a *app) newOutput() *output {
	o := &output{app: a, done: make(chan struct{}), gaps: map[string]int64{}}
	o.writers[sandbox.Stdout], o.writers[sandbox.Stderr] = terminal.Sanitize(a.Stdout), terminal.Sanitize(a.Stderr)
	if terminal.Is(a.Stderr) && !a.quiet {
		o.ticks.Go(o.tick)
	}
	return o
}

// write is a sandbox.OutputFunc.
func (o *output) write(stream sandbox.Stream, data []byte) {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hideClock()
	o.passed[stream] += int64(len(data))
	if o.err != nil {
		return
	}
	if _, err := o.writers[stream].Write(data); err != nil {
		o.err = writeError(err)
		o.app.interrupt(o.err)
	}
	if len(data) > 0 {
		o.midLine[stream] = data[len(data)-1] != '\n'
	}
}

func (o *output) line(text string) {
	o.mu.Lock()
	mid := o.midLine[sandbox.Stdout]
	o.mu.Unlock()
	if mid {
		text = "\n" + text
	}
	o.write(sandbox.Stdout, []byte(text+"\n"))
}

func (o *output) tick() {
	started := time.Now()
	ticker := time.NewTicker(clockEvery)
	defer ticker.Stop()
	for {
		select {
		case <-o.done:
			return
		case <-ticker.C:
		}
		if passed := time.Since(started); passed >= clockAfter {
			o.mu.Lock()
			if !o.midLine[sandbox.Stdout] && !o.midLine[sandbox.Stderr] { // the cursor is at the start of a line
				o.status(cmp.Or(o.step, "running") + " for " + passed.Round(time.Second).String())
			}
			o.mu.Unlock()
		}
	}
}

// status shows a line that the next one replaces. The caller holds mu.
func (o *output) status(text string) {
	o.clock = true
	fmt.Fprint(o.app.Stderr, terminal.ClearLine, o.app.paint(o.app.Stderr, terminal.Faint, text))
}

// progress shows a step before the program starts. Without a terminal, it shows only installations.
func (o *output) progress(step string) {
	if o.app.quiet {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !terminal.Is(o.app.Stderr) {
		if strings.HasPrefix(step, "installing ") {
			o.app.note(terminal.Plain, "%s", step)
		}
		return
	}
	if len(step) > statusWidth {
		step = strings.ToValidUTF8(step[:statusWidth], "")
	}
	o.hideClock()
	if o.step = step; step != "" {
		o.status(step)
	}
}

func (o *output) hideClock() {
	if o.clock {
		fmt.Fprint(o.app.Stderr, terminal.ClearLine)
		o.clock = false
	}
}

// close stops the clock and waits for it.
func (o *output) close() {
	close(o.done)
	o.ticks.Wait()
	o.mu.Lock()
	defer o.mu.Unlock()
	o.hideClock()
	if o.passed[sandbox.Stdout]+o.passed[sandbox.Stderr] > 0 && terminal.Is(o.app.Stderr) {
		fmt.Fprint(o.app.Stderr, terminal.Reset) // the program's last colour must not colour or hide our messages
	}
}

// tail writes the kept end of truncated output, after a line that reports the gap. Without that line, digits before and
// after the gap could look like one number.
func (o *output) tail(r *sandbox.Result) error {
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, kept := range []*sandbox.Captured{sandbox.Stdout: &r.Stdout, sandbox.Stderr: &r.Stderr} {
		stream := sandbox.Stream(i)
		if o.err != nil {
			return o.err
		}
		if kept == nil || kept.Dropped == 0 {
			continue
		}
		// More than the kept head was passed on, perhaps a part of the tail, or all of it.
		gap := int64(len(kept.Head)) + kept.Dropped - o.passed[stream]
		tail := kept.Tail
		if gap < 0 {
			tail = tail[min(-gap, int64(len(tail))):]
			gap = 0
		}
		o.gaps[stream.String()] = gap
		if gap > 0 {
			marker := answer.Marker(gap)
			if o.midLine[stream] {
				marker = "\n" + marker
			}
			tail = append([]byte(marker), tail...)
		}
		if _, err := o.writers[stream].Write(tail); err != nil {
			o.err = writeError(err)
		}
	}
	return o.err
}

// adjust makes hints about dropped output count the bytes that were not shown: more was passed on than is kept.
func (o *output) adjust(hints []sandbox.Hint) []sandbox.Hint {
	var adjusted []sandbox.Hint
	for _, h := range hints {
		if dropped, ok := h.(sandbox.HintOutput); ok {
			if dropped.Bytes = o.gaps[dropped.Stream]; dropped.Bytes == 0 {
				continue
			}
			h = dropped
		}
		adjusted = append(adjusted, h)
	}
	return adjusted
}
