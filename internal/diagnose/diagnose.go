// Package diagnose turns what happened to a run into hints. It is pure: the engine gives it facts.
package diagnose

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Offer has the languages and limits that an engine offers to every run.
type Offer struct {
	Languages []sandbox.Language
	Max       sandbox.Limits // a zero field is no maximum
	Packages  bool           // packages can be requested for this run
}

// Facts describe a run that has ended.
type Facts struct {
	Offer
	Result   *sandbox.Result // without hints
	Request  *sandbox.Request
	Command  string            // the first word of its command line
	Language *sandbox.Language // nil: a command
	Found    []sandbox.Hint    // other hints, which follow

	Living     bool         // in a living sandbox, which goes on
	Signaled   bool         // a caller sent it a signal
	Forbidden  bool         // the checks refused its code
	GuestGone  bool         // the guest has ended
	GuestEnd   *sandbox.End // of a guest that has ended, if known
	NotStarted sandbox.Hint // why no program started; nil if one did

	Tasks  int64    // processes and threads at the end
	Left   int      // background processes that were killed at the end
	Beyond [2]int64 // bytes of stdout and of stderr that the reader does not get

	Network  Network
	Missing  []string // modules or commands for which no package was found
	Optional []string // packages that were not installed because the code can do without

	LineEnds func(script string) bool // reports whether a file is a script with Windows line ends; may be nil

	Used func() (files, bytes int64) // usage of the writable places; called at most once
}

// Network has what the sandbox tried to reach while the run ran.
type Network struct {
	Refusals []sandbox.NetworkRefusal // by the network policy
	Failures []sandbox.NetworkFailure // of what the policy allows

	Misplaced []sandbox.NetworkMisplaced // placeholders that stayed
}

// ExitNotFound is a shell's exit code for a missing command.
const ExitNotFound = 127

// Hints explains the end of a run, most important first. From the program they quote only plain names.
func Hints(f *Facts) []sandbox.Hint {
	r := f.Result
	hints := f.endHints()
	if n := r.Usage.OOMKills; n > 0 && (r.Status == sandbox.StatusSucceeded || r.Status == sandbox.StatusTimeout) {
		hints = append(hints, sandbox.HintChildren{Bound: f.bound(sandbox.LimitMemory), Count: n})
	}
	for i, name := range []string{"stdout", "stderr"} {
		if f.Beyond[i] > 0 && r.Status != sandbox.StatusOutputLimit {
			hints = append(hints, sandbox.HintOutput{Bound: f.bound(sandbox.LimitOutput), Stream: name,
				Bytes: f.Beyond[i]})
		}
	}
	if f.Left > 0 && !f.Living && (r.Status == sandbox.StatusSucceeded || r.Status == sandbox.StatusFailed) {
		hints = append(hints, sandbox.HintLeft{Count: f.Left})
	}
	if h := f.missingCommands(); h != nil {
		hints = append(sandbox.WithoutHint[sandbox.HintNoCommand](sandbox.WithoutHint[sandbox.HintExitCode](hints)), h)
	}
	if h := f.network(); h != nil {
		hints = append([]sandbox.Hint{h}, sandbox.WithoutHint[sandbox.HintExitCode](hints)...)
		hints = slices.DeleteFunc(hints, func(h sandbox.Hint) bool { return h == sandbox.HintUnreachable })
	}
	if len(f.Network.Misplaced) > 0 {
		hints = append(hints, sandbox.HintMisplaced{Placeholders: f.Network.Misplaced})
	}
	if f.compileFailed() && r.Status != sandbox.StatusCanceled && r.Status != sandbox.StatusRejected {
		hints = append([]sandbox.Hint{sandbox.HintNotCompiled{ExitCode: r.Compiled.ExitCode}}, hints...)
	}
	if h := f.noFont(); h != nil {
		hints = append(hints, h)
	}
	return append(hints, f.Found...)
}

func (f *Facts) compileFailed() bool { return f.Result.Compiled != nil && f.Result.Compiled.Failed }

// bound returns a limit of the run, with a higher value to try.
func (f *Facts) bound(name sandbox.LimitName) sandbox.Bound {
	limits := f.Result.Requested.Limits
	b := sandbox.Bound{Limit: name, Value: limits.Get(name)}
	most := int64(math.MaxInt64)
	if m := f.Max.Get(name); m > 0 {
		most = m
	}
	if name == sandbox.LimitDisk { // which lies in memory
		most = min(most, limits.MemoryBytes)
	}
	raised := sandbox.Limits{}
	if raised.Set(name, min(2*b.Value, most)); raised.Get(name) > b.Value && raised.Check() == nil {
		b.Raise = raised.Get(name)
	}
	return b
}

// idleShare is the share of CPU time below which a program killed at its deadline was waiting.
const idleShare = 20

func (f *Facts) endHints() []sandbox.Hint {
	switch r := f.Result; r.Status {
	case sandbox.StatusFailed:
		return f.failureHints()
	case sandbox.StatusTimeout:
		return f.timeoutHints()
	case sandbox.StatusOutOfMemory:
		if f.GuestGone {
			return []sandbox.Hint{sandbox.HintMemoryEnded{Bound: f.bound(sandbox.LimitMemory)}}
		}
		return []sandbox.Hint{sandbox.HintMemoryKilled{Bound: f.bound(sandbox.LimitMemory)}}
	case sandbox.StatusOutputLimit:
		return []sandbox.Hint{sandbox.HintOutputEnded{Bound: f.bound(sandbox.LimitOutput)}}
	case sandbox.StatusKilled:
		if h, ok := f.symptomHint().(sandbox.HintMemory); ok { // Node aborts at the limit of its heap
			return []sandbox.Hint{h}
		}
		return []sandbox.Hint{sandbox.HintSignal{Signal: r.Signal}}
	case sandbox.StatusCanceled:
		return []sandbox.Hint{sandbox.HintCanceled}
	case sandbox.StatusRejected:
		if f.Forbidden {
			return []sandbox.Hint{Refusal(r.Findings)}
		}
		return []sandbox.Hint{sandbox.HintRejected{Name: PlainName(f.Command), Allowed: r.Requested.Commands}}
	case sandbox.StatusLost:
		if f.GuestEnd != nil {
			return []sandbox.Hint{sandbox.HintLost{ExitCode: f.GuestEnd.ExitCode, Signal: f.GuestEnd.Signal}}
		}
		return []sandbox.Hint{sandbox.HintLost{ExitCode: -1}}
	}
	return nil
}

// Refusal returns the hint of the first finding that refuses the code. There must be one.
func Refusal(findings []sandbox.Finding) sandbox.Hint {
	i := slices.IndexFunc(findings, func(f sandbox.Finding) bool { return f.Refuses })
	return sandbox.HintChecks{Rule: findings[i].Rule, Advice: findings[i].Advice}
}

func (f *Facts) timeoutHints() []sandbox.Hint {
	b := f.bound(sandbox.LimitTimeout)
	if f.atProcessLimit() || f.complainsOfProcesses() {
		return []sandbox.Hint{sandbox.HintStuck{Bound: b}, sandbox.HintLimit{Bound: f.bound(sandbox.LimitPids)}}
	}
	if u := f.Result.Usage; u.CPU >= 0 && u.CPU < u.Wall/idleShare {
		return []sandbox.Hint{sandbox.HintWaited{Bound: b, NoNetwork: f.noNetwork()}}
	}
	return []sandbox.Hint{sandbox.HintTimeout{Bound: b}}
}

func (f *Facts) noNetwork() bool { return f.Result.Requested.Network.Mode == sandbox.NetworkNone }

func (f *Facts) failureHints() []sandbox.Hint {
	r := f.Result
	switch {
	case f.Signaled && (r.Signal != 0 || f.keptState()):
		return nil // the caller knows
	case r.Signal != 0:
		return []sandbox.Hint{sandbox.HintInterrupted}
	case f.NotStarted != nil:
		if h, ok := f.NotStarted.(sandbox.HintNoCommand); ok {
			return []sandbox.Hint{f.noCommand(h)}
		}
		return []sandbox.Hint{f.NotStarted}
	case bytes.HasPrefix(bytes.TrimSpace(f.Request.Code), []byte("```")):
		return []sandbox.Hint{sandbox.HintFence}
	}
	if h := f.symptomHint(); h != nil {
		return []sandbox.Hint{h}
	}
	if f.compileFailed() {
		return nil // HintNotCompiled says so
	}
	var hints []sandbox.Hint
	if len(r.Stderr.Head) == 0 {
		hints = append(hints, sandbox.HintExitCode{ExitCode: r.ExitCode})
	}
	if names := PlainNames(f.Optional); len(names) > 0 {
		hints = append(hints, sandbox.HintLeftOut{Names: names, Offer: sandbox.Offer{Packages: true, ByName: true}})
	}
	return hints
}

// keptState reports that code was interrupted, and its context kept.
func (f *Facts) keptState() bool {
	return slices.ContainsFunc(f.Found, func(h sandbox.Hint) bool { return h == sandbox.HintStateKept })
}

// network reports what the network policy refused while the run ran, else what a run that failed could not reach. Other
// runs of the same sandbox at that time are included. It returns nil if there is nothing to report.
func (f *Facts) network() sandbox.Hint {
	refused := sandbox.HintRefused{Living: f.Living}
	for _, r := range f.Network.Refusals {
		if isPlainTarget(r.Target) {
			refused.Refusals = append(refused.Refusals, r)
		}
	}
	failed := sandbox.HintNotReached{}
	for _, r := range f.Network.Failures {
		if isPlainTarget(r.Target) {
			failed.Failures = append(failed.Failures, r)
		}
	}
	switch {
	case len(refused.Refusals) > 0:
		return refused
	case len(failed.Failures) > 0 && f.Result.Status == sandbox.StatusFailed:
		return failed
	}
	return nil
}

// isPlainTarget reports whether the name or address of a destination is safe to show.
func isPlainTarget(target string) bool {
	return PlainName(strings.NewReplacer("[", "", "]", "", ":", "").Replace(target)) != ""
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
