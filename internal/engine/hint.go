package engine

import (
	"bytes"
	"math"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// hints explains an end, most important first. Plain names are all that they quote from the program.
func (x *execution) hints(o *outcome, r *sandbox.Result) []sandbox.Hint {
	hints := x.endHints(o, r)
	if o.oom > 0 && (r.Status == sandbox.StatusSucceeded || r.Status == sandbox.StatusTimeout) {
		h := x.limitHint(sandbox.HintChildren, sandbox.LimitMemory)
		h.Count = o.oom
		hints = append(hints, h)
	}
	for _, s := range []struct {
		name   string
		beyond int64
	}{{"stdout", x.output.beyond(&r.Stdout, x.output.stdout)}, {"stderr", x.output.beyond(&r.Stderr, x.output.stderr)}} {
		if s.beyond > 0 && r.Status != sandbox.StatusOutputLimit {
			h := x.limitHint(sandbox.HintOutput, sandbox.LimitOutput)
			h.Name, h.Count = s.name, s.beyond
			hints = append(hints, h)
		}
	}
	if n := o.exited.Left; n > 0 && x.stays == nil && (r.Status == sandbox.StatusSucceeded || r.Status == sandbox.StatusFailed) {
		hints = append(hints, sandbox.Hint{Code: sandbox.HintLeft, Count: int64(n)})
	}
	if h, ok := x.lacks(); ok {
		hints = append(slices.DeleteFunc(hints, func(h sandbox.Hint) bool { return h.Code == sandbox.HintNoCommand || h.Code == sandbox.HintExitCode }), h)
	}
	if h, ok := x.refused(); ok {
		hints = append([]sandbox.Hint{h}, withoutNetworkGuess(hints)...)
	}
	if x.compileFailed() && r.Status != sandbox.StatusCanceled && r.Status != sandbox.StatusRejected {
		hints = append([]sandbox.Hint{{Code: sandbox.HintNotCompiled, ExitCode: x.compiled.ExitCode}}, hints...)
	}
	return append(hints, x.found...)
}

// limitHint is a hint about a limit of the execution, with a higher value to try.
func (x *execution) limitHint(code sandbox.HintCode, name sandbox.LimitName) sandbox.Hint {
	h := sandbox.Hint{Code: code, Limit: name, Value: x.Spec.Limits.Get(name)}
	most := int64(math.MaxInt64)
	if m := x.live.engine.config.Max.Get(name); m > 0 {
		most = m
	}
	if name == sandbox.LimitDisk { // which lies in memory
		most = min(most, x.Spec.Limits.MemoryBytes)
	}
	limits := sandbox.Limits{}
	if limits.Set(name, min(2*h.Value, most)); limits.Get(name) > h.Value && limits.Check() == nil {
		h.Raise = limits.Get(name)
	}
	return h
}

// idleShare is the share of CPU time below which a program killed at its deadline was waiting.
const idleShare = 20

func (x *execution) endHints(o *outcome, r *sandbox.Result) []sandbox.Hint {
	var h sandbox.Hint
	switch r.Status {
	case sandbox.StatusFailed:
		return x.failureHints(o, r)
	case sandbox.StatusTimeout:
		return x.timeoutHints(o, r)
	case sandbox.StatusOutOfMemory:
		h = x.limitHint(sandbox.HintMemoryKilled, sandbox.LimitMemory)
		if o.cause == causeLost {
			h.Code = sandbox.HintMemoryEnded
		}
	case sandbox.StatusOutputLimit:
		h = x.limitHint(sandbox.HintOutputEnded, sandbox.LimitOutput)
	case sandbox.StatusKilled:
		h = sandbox.Hint{Code: sandbox.HintSignal, Signal: r.Signal}
	case sandbox.StatusCanceled:
		h.Code = sandbox.HintCanceled
	case sandbox.StatusRejected:
		if x.forbidden() {
			return []sandbox.Hint{x.refusalHint()}
		}
		h = sandbox.Hint{Code: sandbox.HintRejected, Name: plainName(x.Argv[0]), Names: x.Spec.Commands}
	case sandbox.StatusLost:
		h = sandbox.Hint{Code: sandbox.HintLost, ExitCode: -1}
		if o.ended {
			h.ExitCode, h.Signal = o.end.ExitCode, o.end.Signal
		}
	default:
		return nil
	}
	return []sandbox.Hint{h}
}

func (x *execution) timeoutHints(o *outcome, r *sandbox.Result) []sandbox.Hint {
	h := x.limitHint(sandbox.HintTimeout, sandbox.LimitTimeout)
	if x.atProcessLimit(o) || x.complainsOfProcesses(r) {
		h.Code = sandbox.HintStuck
		return []sandbox.Hint{h, x.limitHint(sandbox.HintLimit, sandbox.LimitPids)}
	}
	if o.usage.CPU >= 0 && o.usage.CPU < o.usage.Wall/idleShare {
		h.Code = sandbox.HintWaited
		h.NoInput = len(x.Request.Stdin) == 0 && (x.stays == nil || x.stays.context == nil && !x.stays.asks.Interactive)
		h.NoNetwork = x.Spec.Network.Mode == sandbox.NetworkNone
	}
	return []sandbox.Hint{h}
}

func (x *execution) failureHints(o *outcome, r *sandbox.Result) []sandbox.Hint {
	switch {
	case r.Signal != 0 && x.stays != nil && x.stays.wasSignalled():
		return nil // the caller knows
	case r.Signal != 0:
		return []sandbox.Hint{{Code: sandbox.HintInterrupted}}
	case o.notStarted.Code != "":
		return []sandbox.Hint{o.notStarted}
	}
	if bytes.HasPrefix(bytes.TrimSpace(x.Request.Code), []byte("```")) {
		return []sandbox.Hint{{Code: sandbox.HintFence}}
	}
	if symptom, ok := x.symptom(o, r); ok {
		return []sandbox.Hint{symptom}
	}
	if x.compileFailed() {
		return nil // which is a hint of its own
	}
	hints := []sandbox.Hint{{Code: sandbox.HintExitCode, ExitCode: r.ExitCode, Silent: len(r.Stderr.Head) == 0}}
	if names := plainNames(x.optional); len(names) > 0 {
		hints = append(hints, sandbox.Hint{Code: sandbox.HintLeftOut, Names: names, CanInstall: true, ByName: true})
	}
	return hints
}

const longestName = 100 // bytes

// plainName returns a name that is safe to show in a sentence, or "".
func plainName(name string) string {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/@+"
	if len(name) > longestName || strings.Trim(name, plain) != "" {
		return ""
	}
	return name
}

func plainNames(names []string) []string {
	var plain []string
	for _, name := range names {
		if name = plainName(name); name != "" {
			plain = append(plain, name)
		}
	}
	return plain
}
