// Package diagnose turns what happened to a run into hints. It is pure: the engine gives it facts.
package diagnose

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Offer is what an engine offers to every run.
type Offer struct {
	Languages []sandbox.Language
	Max       sandbox.Limits // a zero field is no maximum
	Packages  bool           // packages can be requested for this run
}

// Facts are what the engine knows of a run that has ended.
type Facts struct {
	Offer
	Result   *sandbox.Result // without hints
	Request  *sandbox.Request
	Command  string            // the first word of its command line
	Language *sandbox.Language // nil: a command
	Found    []sandbox.Hint    // other hints, which follow

	Living     bool         // in a living sandbox, which goes on
	Input      bool         // it had standard input, or a context
	Signaled   bool         // a caller sent it a signal
	Forbidden  bool         // the checks refused its code
	GuestGone  bool         // the guest has ended
	GuestEnd   *sandbox.End // of a guest that has ended, if known
	NotStarted sandbox.Hint // why no program started

	Tasks  int64    // processes and threads at the end
	Left   int64    // background processes that were killed at the end
	Beyond [2]int64 // bytes of stdout and of stderr that the reader does not get

	Refusals []sandbox.NetworkRefusal // by the network policy, while it ran
	Missing  []string                 // modules or commands for which no package was found
	Optional []string                 // packages that were not installed because the code can do without

	Used func() (files, bytes int64) // what lies in the writable places; called at most once
}

// exitNotFound is a shell's exit code for a missing command.
const exitNotFound = 127

// Hints explains an end, most important first. Plain names are all that they quote from the program.
func Hints(f *Facts) []sandbox.Hint {
	r := f.Result
	hints := f.endHints()
	if n := r.Usage.OOMKills; n > 0 && (r.Status == sandbox.StatusSucceeded || r.Status == sandbox.StatusTimeout) {
		h := f.limitHint(sandbox.HintChildren, sandbox.LimitMemory)
		h.Count = n
		hints = append(hints, h)
	}
	for i, name := range []string{"stdout", "stderr"} {
		if f.Beyond[i] > 0 && r.Status != sandbox.StatusOutputLimit {
			h := f.limitHint(sandbox.HintOutput, sandbox.LimitOutput)
			h.Name, h.Count = name, f.Beyond[i]
			hints = append(hints, h)
		}
	}
	if f.Left > 0 && !f.Living && (r.Status == sandbox.StatusSucceeded || r.Status == sandbox.StatusFailed) {
		hints = append(hints, sandbox.Hint{Code: sandbox.HintLeft, Count: f.Left})
	}
	if h, ok := f.missingCommands(); ok {
		hints = append(slices.DeleteFunc(hints, func(h sandbox.Hint) bool {
			return h.Code == sandbox.HintNoCommand || h.Code == sandbox.HintExitCode
		}), h)
	}
	if h, ok := f.refused(); ok {
		guess := func(h sandbox.Hint) bool { return h.Code == sandbox.HintUnreachable || h.Code == sandbox.HintExitCode }
		hints = append([]sandbox.Hint{h}, slices.DeleteFunc(hints, guess)...)
	}
	if f.compileFailed() && r.Status != sandbox.StatusCanceled && r.Status != sandbox.StatusRejected {
		hints = append([]sandbox.Hint{{Code: sandbox.HintNotCompiled, ExitCode: r.Compiled.ExitCode}}, hints...)
	}
	return append(hints, f.Found...)
}

func (f *Facts) compileFailed() bool { return f.Result.Compiled != nil && f.Result.Compiled.Failed }

// limitHint returns a hint about a limit of the run, with a higher value to try.
func (f *Facts) limitHint(code sandbox.HintCode, name sandbox.LimitName) sandbox.Hint {
	limits := f.Result.Requested.Limits
	h := sandbox.Hint{Code: code, Limit: name, Value: limits.Get(name)}
	most := int64(math.MaxInt64)
	if m := f.Max.Get(name); m > 0 {
		most = m
	}
	if name == sandbox.LimitDisk { // which lies in memory
		most = min(most, limits.MemoryBytes)
	}
	raised := sandbox.Limits{}
	if raised.Set(name, min(2*h.Value, most)); raised.Get(name) > h.Value && raised.Check() == nil {
		h.Raise = raised.Get(name)
	}
	return h
}

// idleShare is the share of CPU time below which a program killed at its deadline was waiting.
const idleShare = 20

func (f *Facts) endHints() []sandbox.Hint {
	var h sandbox.Hint
	switch r := f.Result; r.Status {
	case sandbox.StatusFailed:
		return f.failureHints()
	case sandbox.StatusTimeout:
		return f.timeoutHints()
	case sandbox.StatusOutOfMemory:
		h = f.limitHint(sandbox.HintMemoryKilled, sandbox.LimitMemory)
		if f.GuestGone {
			h.Code = sandbox.HintMemoryEnded
		}
	case sandbox.StatusOutputLimit:
		h = f.limitHint(sandbox.HintOutputEnded, sandbox.LimitOutput)
	case sandbox.StatusKilled:
		h = sandbox.Hint{Code: sandbox.HintSignal, Signal: r.Signal}
	case sandbox.StatusCanceled:
		h.Code = sandbox.HintCanceled
	case sandbox.StatusRejected:
		if f.Forbidden {
			return []sandbox.Hint{Refusal(r.Findings)}
		}
		h = sandbox.Hint{Code: sandbox.HintRejected, Name: PlainName(f.Command), Names: r.Requested.Commands}
	case sandbox.StatusLost:
		h = sandbox.Hint{Code: sandbox.HintLost, ExitCode: -1}
		if f.GuestEnd != nil {
			h.ExitCode, h.Signal = f.GuestEnd.ExitCode, f.GuestEnd.Signal
		}
	default:
		return nil
	}
	return []sandbox.Hint{h}
}

// Refusal returns the hint of the first finding that refuses the code. There must be one.
func Refusal(findings []sandbox.Finding) sandbox.Hint {
	i := slices.IndexFunc(findings, func(f sandbox.Finding) bool { return f.Refuses })
	return sandbox.Hint{Code: sandbox.HintChecks, Name: findings[i].Rule, Names: []string{findings[i].Advice}}
}

func (f *Facts) timeoutHints() []sandbox.Hint {
	h := f.limitHint(sandbox.HintTimeout, sandbox.LimitTimeout)
	if f.atProcessLimit() || f.complainsOfProcesses() {
		h.Code = sandbox.HintStuck
		return []sandbox.Hint{h, f.limitHint(sandbox.HintLimit, sandbox.LimitPids)}
	}
	if u := f.Result.Usage; u.CPU >= 0 && u.CPU < u.Wall/idleShare {
		h.Code = sandbox.HintWaited
		h.NoInput = !f.Input
		h.NoNetwork = f.noNetwork()
	}
	return []sandbox.Hint{h}
}

func (f *Facts) noNetwork() bool { return f.Result.Requested.Network.Mode == sandbox.NetworkNone }

func (f *Facts) failureHints() []sandbox.Hint {
	r := f.Result
	switch {
	case r.Signal != 0 && f.Signaled:
		return nil // the caller knows
	case r.Signal != 0:
		return []sandbox.Hint{{Code: sandbox.HintInterrupted}}
	case f.NotStarted.Code != "":
		return []sandbox.Hint{f.completeStart()}
	}
	if bytes.HasPrefix(bytes.TrimSpace(f.Request.Code), []byte("```")) {
		return []sandbox.Hint{{Code: sandbox.HintFence}}
	}
	if symptom, ok := f.symptom(); ok {
		return []sandbox.Hint{symptom}
	}
	if f.compileFailed() {
		return nil // which is a hint of its own
	}
	hints := []sandbox.Hint{{Code: sandbox.HintExitCode, ExitCode: r.ExitCode, Silent: len(r.Stderr.Head) == 0}}
	if names := PlainNames(f.Optional); len(names) > 0 {
		hints = append(hints, sandbox.Hint{Code: sandbox.HintLeftOut, Names: names, CanInstall: true, ByName: true})
	}
	return hints
}

// refused reports what the network policy refused while the run ran. Other runs of the same sandbox at that time are included.
func (f *Facts) refused() (h sandbox.Hint, ok bool) {
	h.Code, h.Living = sandbox.HintRefused, f.Living
	for _, r := range f.Refusals {
		switch plain := PlainName(strings.NewReplacer("[", "", "]", "", ":", "").Replace(r.Target)) != ""; {
		case !plain:
		case r.Fix:
			h.Names = append(h.Names, r.Target)
		default:
			h.Others = append(h.Others, r.Target+": "+r.Reason)
		}
	}
	return h, len(h.Names)+len(h.Others) > 0
}

// LongestName limits the names in hints, in bytes.
const LongestName = 100

// PlainName returns a name that is safe to show in a sentence, or "".
func PlainName(name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/@+"
	if len(name) > LongestName || strings.Trim(name, plain) != "" {
		return ""
	}
	return name
}

// PlainNames returns the names that are safe to show.
func PlainNames(names []string) []string {
	var plain []string
	for _, name := range names {
		if name = PlainName(name); name != "" {
			plain = append(plain, name)
		}
	}
	return plain
}
