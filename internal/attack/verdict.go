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

// Outcome is what a trial of an attack has shown.
type Outcome string

// The outcomes, from the best to the worst.
const (
	Contained     Outcome = "blocked"
	NotApplicable Outcome = "not applicable" // it was not made, or what decides cannot be seen from here
	Unclear       Outcome = "unclear"        // it did not come to its end, so nothing is shown
	NotContained  Outcome = "not blocked"    // it was given what it must not have, or something stayed behind
)

// Verdict is the outcome of one trial, and why.
type Verdict struct {
	Outcome  Outcome
	Findings []string // of one that was not contained: what it got, did or left
	Why      string   // of one that is not applicable or unclear
	Notes    []string // figures, and what was left out
	Took     time.Duration

	Meanwhile []string // the notes that a report shows: what others changed on the host, and what took long
}

// record is what a trial writes down while it goes on. The parts of a trial run in goroutines of their own, so that each can give up
// from wherever it is, as package testing has it.
type record struct {
	ctx context.Context // what is wrong after its end is the interruption's doing

	mu       sync.Mutex // guards all below
	findings []string
	passed   string
	unclear  []string
	notes    []string
	remarks  []string // among the notes
	undo     []func()
}

// part runs a part of the trial to its end, or until it gives up.
func (r *record) part(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	<-done
}

// wrong notes that the attack was not contained. The trial goes on. After an interruption nothing is wrong any more, as nothing came to its end.
func (r *record) wrong(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.ctx.Err() != nil {
		return
	}
	r.findings = append(r.findings, fmt.Sprintf(format, args...))
}

// giveUp ends the part: nothing can be shown.
func (r *record) giveUp(format string, args ...any) {
	r.doubt(format, args...)
	runtime.Goexit()
}

// doubt notes that something is not shown. The trial goes on.
func (r *record) doubt(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.unclear = append(r.unclear, fmt.Sprintf(format, args...))
}

// pass ends the part: the attack is not one on this backend or host.
func (r *record) pass(format string, args ...any) {
	r.mu.Lock()
	r.passed = fmt.Sprintf(format, args...)
	r.mu.Unlock()
	runtime.Goexit()
}

func (r *record) note(format string, args ...any) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.notes = append(r.notes, fmt.Sprintf(format, args...))
}

// remark is a note that a report shows.
func (r *record) remark(format string, args ...any) {
	r.note(format, args...)
	r.mu.Lock()
	defer r.mu.Unlock()
	r.remarks = append(r.remarks, fmt.Sprintf(format, args...))
}

// later has something done once the trial is over, the last first.
func (r *record) later(do func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.undo = append(r.undo, do)
}

func (r *record) clear() bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.findings) == 0 && len(r.unclear) == 0 && r.passed == ""
}

// close undoes what was left to be undone, and sums up.
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
