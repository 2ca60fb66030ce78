package engine

import (
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxRemembered limits the ended executions that a sandbox remembers. Their logs are bounded by the folder's retention.
const maxRemembered = 100

// executions are those of one sandbox: all that run, and the last that ended. The sandbox's mu guards it.
type executions struct {
	running int // also those that wait
	waiting int // calls that wait for a context
	byID    map[sandbox.ID]*Execution
	order   []sandbox.ID // the oldest first
}

func newExecutions() executions { return executions{byID: map[sandbox.ID]*Execution{}} }

func (l *executions) add(x *Execution) {
	l.byID[x.id] = x
	l.order = append(l.order, x.id)
	l.running++
}

// forget drops the oldest that ended, beyond maxRemembered, and returns them.
func (l *executions) forget() (forgotten []*Execution) {
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

// slim gives up the memory of an execution that has ended and is only remembered: what it was asked for, what it wrote and showed. The
// result of a detached one keeps none of that either, as its log has it; that of another is its caller's.
func (x *Execution) slim() {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.asks.Request = sandbox.Request{Command: shortCommand(x.asks.Request.Command)}
	x.Execution = &plan.Execution{Spec: x.Spec, Language: x.Language, Request: x.asks.Request}
	x.output, x.baseline, x.shown, x.raised, x.packages, x.missing, x.optional = nil, nil, nil, nil, nil, nil, nil
	if r := x.result; r != nil && x.asks.Detached {
		slim := *r
		slim.Stdout, slim.Stderr, slim.Shown, slim.Files, slim.Packages = sandbox.Captured{}, sandbox.Captured{}, nil, nil, nil
		if slim.Exception != nil {
			slim.Exception = shortException(slim.Exception)
		}
		x.result = &slim
	}
}

// maxKeptCommand limits what is remembered of the command of an execution that has ended, in bytes.
const maxKeptCommand = 4 << 10

func shortCommand(words []string) (short []string) {
	for left := maxKeptCommand; len(words) > 0 && left > 0; words = words[1:] {
		word := strings.Clone(head(words[0], left))
		short, left = append(short, word), left-len(word)-1
	}
	return short
}

// ExecutionInfo describes an execution in a living sandbox.
type ExecutionInfo struct {
	ID       sandbox.ID
	Context  string   // "" for a command
	Language string   // "" for a command
	Command  []string // of one that ended, its beginning
	Began    time.Time
	Deadline time.Time
	Detached bool
	Status   sandbox.Status // running, or how it ended
	ExitCode int            // -1 while there is none
}

// Executions lists the executions that run, and the last that ended, the oldest first.
func (s *Sandbox) Executions() []ExecutionInfo {
	s.mu.Lock()
	list := make([]*Execution, 0, len(s.executions.order))
	for _, id := range s.executions.order {
		list = append(list, s.executions.byID[id])
	}
	s.mu.Unlock()
	infos := make([]ExecutionInfo, len(list))
	for i, x := range list {
		infos[i] = x.Info()
	}
	return infos
}

// Execution finds an execution by its id.
func (s *Sandbox) Execution(id sandbox.ID) (*Execution, error) {
	if err := s.ended(); err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x := s.executions.byID[id]; x != nil {
		return x, nil
	}
	return nil, &sandbox.Error{Kind: sandbox.NotFound, Op: "execution " + shownName(string(id)),
		Msg: "there is none in this sandbox, or it was long ago", Fixes: []sandbox.Hint{sandbox.FixListRuns}}
}
