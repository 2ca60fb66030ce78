package engine

import (
	"context"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// outputBuffer is the guest's buffer of each stream: enough for a scheduling delay at pipe speed.
const outputBuffer = guest.DefaultBuffer

// perform takes the run from its files to its result. An error means that nothing was started; after the start, every
// end is a status.
func (x *Run) perform(ctx context.Context) (*sandbox.Result, error) {
	if x.resumed == nil && !x.plain && x.work == nil { // neither another attempt nor a step of an installation
		x.notify(RunStarted, nil, nil)
	}
	if !x.forbidden() {
		if err := x.upload(ctx); err != nil {
			return nil, err
		}
		if err := x.lookAtEntry(ctx); err != nil {
			return nil, err
		}
	}
	if x.forbidden() {
		x.verdict.claim(causeRejected)
		x.output.say(x.refusal())
		return x.conclude(ctx, guest.Exited{}), nil
	}
	x.attempts = x.sandbox.attempts()
	started := x.began
	if x.resumed == nil {
		started = x.beginNow()
	}
	defer x.cleanUp()
	made, exited, err := x.compile(ctx)
	if made {
		if x.compiled != nil {
			started = x.beginNow()
		}
		if x.context != nil {
			exited, err = x.runInContext(ctx)
		} else {
			exited, err = x.runProcess(ctx)
		}
	}
	if err != nil {
		return nil, err
	}
	x.timings.Run = time.Since(started)
	r := x.conclude(ctx, exited)
	return r, x.handOver(ctx, r)
}

// beginNow begins the time limit of the program.
func (x *Run) beginNow() time.Time {
	x.mu.Lock()
	defer x.mu.Unlock()
	x.began = time.Now()
	return x.began
}

// conclude assembles the result of a run that has ended.
func (x *Run) conclude(ctx context.Context, exited guest.Exited) *sandbox.Result {
	o := x.observe(exited)
	r := x.describe(o)
	x.collect(ctx, o, r)
	r.Timings = x.timings
	r.Hints = x.diagnose(o, r)
	return r
}

// observe reads the host's counters. It ignores the caller's context: a canceled run has used resources too.
func (x *Run) observe(exited guest.Exited) *outcome {
	o := &outcome{cause: x.verdict.of(), exited: exited, notStarted: x.notStarted}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	var err error
	if o.usage, err = x.sandbox.usage(ctx, o.cause == causeLost); err != nil {
		x.sandbox.engine.log.Warn("could not read the host's counters", "sandbox", x.sandbox.id, "err", err)
		o.usage = unknownUsage
	} else {
		x.sandbox.measured(o.usage)
	}
	o.usage = sinceBefore(o.usage, x.before)
	o.oom = max(o.usage.OOMKills, 0)
	o.usage.Wall = x.timings.Run
	if o.usage.CPU < 0 && o.cause == causeExit {
		o.usage.CPU = exited.CPU
	}
	if o.cause == causeLost {
		brief, cancel := context.WithTimeout(ctx, endTimeout)
		defer cancel()
		o.end, err = x.sandbox.box.Wait(brief)
		o.ended = err == nil
	}
	return o
}

var unknownUsage = sandbox.Usage{CPU: -1, MemoryPeak: -1, MemoryNow: -1, OOMKills: -1, PidsNow: -1, PidsRefused: -1,
	DiskWritten: -1}

// sinceBefore turns the sandbox's totals into those since an earlier moment. Peaks stay those of the sandbox.
func sinceBefore(now, before sandbox.Usage) sandbox.Usage {
	since := func(now, before int64) int64 {
		if now < 0 || before < 0 {
			return -1
		}
		return max(now-before, 0)
	}
	now.CPU = time.Duration(since(int64(now.CPU), int64(before.CPU)))
	now.OOMKills = since(now.OOMKills, before.OOMKills)
	now.PidsRefused = since(now.PidsRefused, before.PidsRefused)
	now.DiskWritten = since(now.DiskWritten, before.DiskWritten)
	return now
}

// describe returns the result without files and hints.
func (x *Run) describe(o *outcome) *sandbox.Result {
	r := &sandbox.Result{
		ID:         x.id,
		Status:     o.status(),
		Stdout:     x.output.stdout.captured(),
		Stderr:     x.output.stderr.captured(),
		Compiled:   x.compiled,
		Findings:   x.reported(&x.sandbox.engine.config.Checks),
		Usage:      o.usage,
		Requested:  x.Spec,
		Packages:   x.packages,
		Background: x.late,
		Effective:  effective(x.sandbox.effective(), x.Spec.Limits),
	}
	r.Requested.ID, r.Effective.Requested = x.sandbox.id, x.asked
	r.ExitCode, r.Signal = o.exit()
	if ended := r.Status == sandbox.StatusFailed || r.Status == sandbox.StatusKilled; ended && !x.compileFailed() &&
		x.Language != nil && x.Language.ParseError != nil {
		r.Exception = x.parseError(r.Stderr)
	}
	return r
}

// parseError lets the language parse the stderr of a failed program. The bytes are hostile and the parser large, so it
// contains a panic.
func (x *Run) parseError(c sandbox.Captured) (found *sandbox.Exception) {
	defer func() {
		if p := recover(); p != nil {
			found = nil
			_ = x.sandbox.engine.panicked("read the exception of "+x.Language.Name, p)
		}
	}()
	text := c.Head
	if c.Dropped > 0 { // an uncaught exception is written last
		text = c.Tail
	}
	return x.Language.ParseError(text)
}

// effective adds the limits of guest and engine to the backend's policy.
func effective(p sandbox.Policy, asked sandbox.Limits) sandbox.Policy {
	p.Limits.Timeout, p.Limits.OutputBytes = asked.Timeout, asked.OutputBytes
	enforcers := map[sandbox.LimitName]string{
		sandbox.LimitTimeout: "the guest's monotonic clock, and the host's",
		sandbox.LimitOutput:  "the host keeps head and tail",
	}
	for name, by := range p.Enforcers {
		enforcers[name] = by
	}
	p.Enforcers = enforcers
	return p
}
