package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxRemembered limits the ended runs that a sandbox remembers. Their logs are bounded by the folder's retention.
const maxRemembered = 100

// runs are those of one sandbox: all that run, and the last that ended. The sandbox's mu guards it.
type runs struct {
	running int   // also those that wait
	logged  int64 // that ended since recordRuns, a large log counts as several
	waiting int   // calls that wait for a context
	byID    map[sandbox.ID]*Run
	order   []sandbox.ID // the oldest first
}

func newRuns() runs { return runs{byID: map[sandbox.ID]*Run{}} }

func (l *runs) add(x *Run) {
	l.byID[x.id] = x
	l.order = append(l.order, x.id)
	l.running++
}

// forget drops the oldest that ended, beyond maxRemembered, and returns them.
func (l *runs) forget() (forgotten []*Run) {
	over := len(l.order) - l.running - maxRemembered
	l.order = slices.DeleteFunc(l.order, func(id sandbox.ID) bool {
		if over <= 0 || !l.byID[id].isDone() {
			return false
		}
		over--
		forgotten = append(forgotten, l.byID[id])
		delete(l.byID, id)
		return true
	})
	return forgotten
}

// recordRuns counts a run that ended, and puts the numbers of runs of the contexts on record before the logs that have
// them are removed.
func (s *Sandbox) recordRuns(log eventlog.Last) {
	s.mu.Lock()
	s.runs.logged += 1 + log.Bytes/(eventlog.DefaultRetention.Bytes/maxRemembered)
	due := s.runs.logged >= maxRemembered/2 && len(s.contexts) > 0
	if due {
		s.runs.logged = 0
	}
	s.mu.Unlock()
	if due {
		s.spawn(func() { _ = s.recordContexts(nil) }) // a full disk: a later one does
	}
}

// slim frees the memory of a run that has ended: its request, tools, output and results. The result of one without a
// caller keeps none of that either, as its log has it; that of another is its caller's.
func (x *Run) slim() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.req.Request = sandbox.Request{Command: shortCommand(x.req.Request.Command),
		Metadata: shortMetadata(x.req.Request.Metadata)}
	x.Run = &plan.Run{Spec: x.Spec, Language: x.Language, Request: x.req.Request}
	x.output, x.baseline, x.results, x.exception, x.packages, x.absent = nil, nil, nil, nil, nil, absent{}
	x.checked.findings, x.compiled, x.req.Deliver = nil, nil, nil // Deliver may hold the caller's answer
	if x.calls != nil {
		x.calls.set.End()
	}
	if r := x.result; r != nil && x.isLeft() {
		slim := *r
		slim.Stdout, slim.Stderr, slim.Background = sandbox.Captured{}, sandbox.Captured{}, sandbox.Captured{}
		slim.Results, slim.Files, slim.Packages, slim.Findings, slim.Compiled = nil, nil, nil, nil, nil
		if slim.Exception != nil {
			slim.Exception = shortException(slim.Exception, maxRememberedText)
		}
		x.result = &slim
	}
}

// isLeft reports whether no caller waits for the values of the run: they are in its log.
func (x *Run) isLeft() bool { return x.req.Background || x.resumed != nil }

// maxKeptCommand limits what is remembered of the command of a run that has ended, in bytes.
const maxKeptCommand = 2 << 10

// maxRememberedText limits what is remembered of each text of its exception. Its log has more.
const maxRememberedText = 1 << 10

// maxKeptMetadata limits the metadata that is remembered of a run that has ended, in bytes.
const maxKeptMetadata = 1 << 10

// shortMetadata returns metadata, or nil if it is large.
func shortMetadata(metadata map[string]string) map[string]string {
	size := 0
	for name, value := range metadata {
		size += len(name) + len(value)
	}
	if size > maxKeptMetadata {
		return nil
	}
	return metadata
}

func shortCommand(words []string) (short []string) {
	for left := maxKeptCommand; len(words) > 0 && left > 0; words = words[1:] {
		word := strings.Clone(head(words[0], left))
		short, left = append(short, word), left-len(word)-1
	}
	return short
}

// RunInfo describes a run in a living sandbox.
type RunInfo struct {
	ID         sandbox.ID
	Context    string   // "" for a command
	Language   string   // "" for a command
	Command    []string // of one that ended, its beginning
	Began      time.Time
	Deadline   time.Time // zero: no time limit
	Background bool
	Status     sandbox.Status // running, or how it ended
	ExitCode   int            // -1 until it ended
	Metadata   map[string]string

	PID         int32  // of its process in the sandbox; 0 in a context, and until it began
	Terminal    bool   // it has a terminal
	ContextRuns uint64 // of its context, up to this one; 0 until it began there
}

// Runs lists the runs that run, and the last that ended, the oldest first.
func (s *Sandbox) Runs() (infos []RunInfo) {
	_ = s.EachRun(func(i RunInfo) error { // it returns no error of its own
		infos = append(infos, i)
		return nil
	})
	return infos
}

// EachRun hands the runs of Runs to take, one after the other, and returns the first error of take. It holds only their
// ids, and leaves out what is forgotten meanwhile.
func (s *Sandbox) EachRun(take func(RunInfo) error) error {
	s.mu.Lock()
	ids := slices.Clone(s.runs.order)
	s.mu.Unlock()
	for _, id := range ids {
		s.mu.Lock()
		x := s.runs.byID[id]
		s.mu.Unlock()
		if x == nil {
			continue
		}
		if err := take(x.Info()); err != nil {
			return err
		}
	}
	return nil
}

// FindRun finds a run by its id.
func (s *Sandbox) FindRun(id sandbox.ID) (*Run, error) {
	if err := s.Ended(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.runs.byID[id]; x != nil {
		return x, nil
	}
	return nil, &sandbox.Error{Kind: sandbox.NotFound, Op: "run " + printableName(string(id)),
		Msg: "no such run: unknown id, or removed from the history", Fixes: []sandbox.Hint{sandbox.FixListRuns}}
}
