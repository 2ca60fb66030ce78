package attack

import (
	"context"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
	"time"
)

// Outcome is the result of trying an attack.
type Outcome string

// The outcomes, from the best to the worst.
const (
	Contained     Outcome = "blocked"
	NotApplicable Outcome = "not applicable" // it was not tried, or this user cannot see the evidence
	Unclear       Outcome = "unclear"        // it did not complete, so it shows nothing
	NotContained  Outcome = "not blocked"    // it got something forbidden, or something was left behind
)

// Verdict is the outcome of one trial, and why.
type Verdict struct {
	Outcome  Outcome       `json:"outcome,omitempty"`
	Findings []string      `json:"findings,omitempty"` // if not contained: the breaches, changes and leftovers
	Why      string        `json:"why,omitempty"`      // if not applicable or unclear
	Notes    []string      `json:"notes,omitempty"`    // figures, and checks that were left out
	Took     time.Duration `json:"-"`

	Meanwhile []string `json:"-"` // notes for the report: host changes by others, and slow steps
}

// record collects a trial's results. Parts of a trial run in their own goroutines, so that each can give up anywhere,
// as in package testing.
type record struct {
	ctx context.Context // after its end, errors come from the interruption

	mu       sync.Mutex // guards all below
	findings []string
	passed   string
	unclear  []string
	notes    []string
	remarks  []string // among the notes
	undo     []func()
}

// part runs a part of the trial until it ends or gives up.
func (r *record) part(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

// add adds a line to one of the lists.
func (r *record) add(list *[]string, format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	*list = append(*list, fmt.Sprintf(format, args...))
}

// fail records that the attack was not contained. The trial continues. After an interruption it records nothing, as
// nothing completed.
func (r *record) fail(format string, args ...any) {
	if r.ctx.Err() == nil {
		r.add(&r.findings, format, args...)
	}
}

// doubt records that something is not shown. The trial continues.
func (r *record) doubt(format string, args ...any) { r.add(&r.unclear, format, args...) }

// giveUp records a doubt and ends the part.
func (r *record) giveUp(format string, args ...any) {
	r.doubt(format, args...)
	runtime.Goexit()
}

// need gives up on an error.
func (r *record) need(err error) {
	if err != nil {
		r.giveUp("%v", err)
	}
}

// skip ends the part: the attack does not apply to this backend or host.
func (r *record) skip(format string, args ...any) {
	r.mu.Lock()
	r.passed = fmt.Sprintf(format, args...)
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *record) note(format string, args ...any) { r.add(&r.notes, format, args...) }

// remark is a note that a report shows.
func (r *record) remark(format string, args ...any) {
	r.note(format, args...)
	r.add(&r.remarks, format, args...)
}

// later defers a step to the end of the trial. The last step runs first.
func (r *record) later(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undo = append(r.undo, do)
}

func (r *record) isClear() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.findings) == 0 && len(r.unclear) == 0 && r.passed == ""
}

// close runs the deferred steps, and sums up.
func (r *record) close() Verdict {
	for _, do := range slices.Backward(r.undo) {
		do()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	v := Verdict{Outcome: Contained, Findings: r.findings, Notes: r.notes, Meanwhile: r.remarks}
	switch {
	case len(r.findings) > 0:
		v.Outcome = NotContained
	case len(r.unclear) > 0:
		v.Outcome, v.Why = Unclear, strings.Join(r.unclear, "\n")
	case r.passed != "":
		v.Outcome, v.Why = NotApplicable, r.passed
	}
	return v
}
