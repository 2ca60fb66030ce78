package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	clockAfter = 2 * time.Second // runs shorter than this show no clock
	clockEvery = time.Second
	clearLine  = "\r\x1b[K"
)

var errReaderGone = errors.New("nobody reads the output any more")

// cannotWrite classifies an error of our output: a lost reader is the normal end of a pipeline, all else is a failure.
func cannotWrite(err error) error {
	if errors.Is(err, syscall.EPIPE) {
		return fmt.Errorf("%w: %w", errReaderGone, err)
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "write the program's output", Err: err}
}

// show passes a program's output on as it arrives. On a terminal, it shows a clock while the program is silent.
type show struct {
	app    *app
	stdout io.Writer
	stderr io.Writer
	passed [3]int64         // bytes passed on, by stream
	gaps   map[string]int64 // bytes that were not shown, by the name of a stream of which some were dropped

	mu      sync.Mutex // guards all below
	step    string     // what is done before the program starts
	clock   bool       // the clock is on the terminal's last line
	midLine [3]bool    // by stream: its last line is incomplete
	err     error      // of the first failed write

	done  chan struct{} // closed to stop the clock
	ticks sync.WaitGroup
}

func (a *app) newShow() *show {
	s := &show{app: a, stdout: forTerminal(a.Stdout), stderr: forTerminal(a.Stderr), done: make(chan struct{}), gaps: map[string]int64{}}
	if isTerminal(a.Stderr) && !a.quiet {
		s.ticks.Go(s.tick)
	}
	return s
}

// output is a sandbox.OutputFunc.
func (s *show) output(stream sandbox.Stream, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hideClock()
	w := s.stdout
	if stream == sandbox.Stderr {
		w = s.stderr
	}
	s.passed[stream] += int64(len(data))
	if s.err != nil {
		return
	}
	if _, err := w.Write(data); err != nil {
		s.err = cannotWrite(err)
		s.app.interrupt(s.err)
	}
	if len(data) > 0 {
		s.midLine[stream] = data[len(data)-1] != '\n'
	}
}

// line passes on text of stdout as a line of its own.
func (s *show) line(text string) {
	s.mu.Lock()
	mid := s.midLine[sandbox.Stdout]
	s.mu.Unlock()
	if mid {
		text = "\n" + text
	}
	s.output(sandbox.Stdout, []byte(text+"\n"))
}

func (s *show) tick() {
	started := time.Now()
	ticker := time.NewTicker(clockEvery)
	defer ticker.Stop()
	for {
		select {
		case <-s.done:
			return
		case <-ticker.C:
		}
		if passed := time.Since(started); passed >= clockAfter {
			s.mu.Lock()
			if !s.midLine[sandbox.Stdout] && !s.midLine[sandbox.Stderr] { // the cursor is at the start of a line
				s.status(cmp.Or(s.step, "running") + " for " + passed.Round(time.Second).String())
			}
			s.mu.Unlock()
		}
	}
}

// status shows a line that the next one replaces. Callers hold mu.
func (s *show) status(text string) {
	s.clock = true
	fmt.Fprint(s.app.Stderr, clearLine, s.app.paint(s.app.Stderr, faint, text))
}

// progressWidth keeps a status on one line of a terminal.
const progressWidth = 60

// progress shows what is done before the program starts: on a terminal each step in place of the last, elsewhere what is installed.
func (s *show) progress(step string) {
	if s.app.quiet {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !isTerminal(s.app.Stderr) {
		if strings.HasPrefix(step, "installing ") {
			s.app.note(plain, "%s", step)
		}
		return
	}
	if len(step) > progressWidth {
		step = strings.ToValidUTF8(step[:progressWidth], "")
	}
	s.hideClock()
	if s.step = step; step != "" {
		s.status(step)
	}
}

// hideClock removes the clock. Callers hold mu.
func (s *show) hideClock() {
	if s.clock {
		fmt.Fprint(s.app.Stderr, clearLine)
		s.clock = false
	}
}

// end stops the clock and waits for it.
func (s *show) end() {
	close(s.done)
	s.ticks.Wait()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hideClock()
	if s.passed[sandbox.Stdout]+s.passed[sandbox.Stderr] > 0 && isTerminal(s.app.Stderr) {
		fmt.Fprint(s.app.Stderr, reset) // else the program's last colour would be that of what we say, or hide it
	}
}

// rest passes on the kept end of truncated output, after a line for the gap: without it, digits before and after could look like one
// number.
func (s *show) rest(r *sandbox.Result) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, c := range []struct {
		stream sandbox.Stream
		kept   *sandbox.Captured
		w      io.Writer
	}{{sandbox.Stdout, &r.Stdout, s.stdout}, {sandbox.Stderr, &r.Stderr, s.stderr}} {
		if s.err != nil {
			return s.err
		}
		if c.kept.Dropped == 0 {
			continue
		}
		// More than the kept head was passed on, perhaps part of the tail, or all of it.
		total := int64(len(c.kept.Head)) + c.kept.Dropped + int64(len(c.kept.Tail))
		tail := c.kept.Tail
		gap := total - int64(len(tail)) - s.passed[c.stream]
		if gap < 0 {
			tail = tail[min(-gap, int64(len(tail))):]
			gap = 0
		}
		s.gaps[c.stream.String()] = gap
		if gap > 0 {
			marker := answer.Marker(gap)
			if s.midLine[c.stream] {
				marker = "\n" + marker
			}
			tail = append([]byte(marker), tail...)
		}
		if _, err := c.w.Write(tail); err != nil {
			s.err = cannotWrite(err)
		}
	}
	return s.err
}

// asShown has hints about dropped output say what is missing here: more was passed on as it came than is kept.
func (s *show) asShown(hints []sandbox.Hint) []sandbox.Hint {
	hints = slices.Clone(hints)
	for i := range hints {
		if h := &hints[i]; h.Code == sandbox.HintOutput {
			h.Count = s.gaps[h.Name]
		}
	}
	return slices.DeleteFunc(hints, func(h sandbox.Hint) bool { return h.Code == sandbox.HintOutput && h.Count == 0 })
}
