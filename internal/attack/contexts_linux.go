package attack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// attacked is the context in which the attack runs.
const attacked = "attacked"

// witnesses are code for the other contexts, one of each language, named after it. Nothing may disturb them: what the first execution holds,
// the later ones print.
var witnesses = map[string]struct{ hold, show string }{
	"python":     {"held = 40", "print(held + 2)"},
	"javascript": {"var held = 40", "console.log(held + 2)"},
	"bash":       {"held=40", "echo $((held + 2))"},
}

const shown = "42\n"

// home is a living sandbox for the runs of a trial that have the same limits.
type home struct {
	*engine.Sandbox
	limits   sandbox.Limits
	language string // of the context attacked
}

// perform makes a run: in a sandbox of its own, or as code in a context.
func (tr *trial) perform(ctx context.Context, run engine.Run) (*sandbox.Result, error) {
	if !tr.arena.options.Contexts {
		return tr.arena.engine.Run(ctx, run)
	}
	h, err := tr.moveIn(ctx, run.Spec, run.Request.Language)
	if err != nil {
		return nil, err
	}
	r, err := h.Run(ctx, tr.inContext(run.Request))
	if err == nil {
		tr.undisturbed(r)
	}
	return r, err
}

// inContext turns a run into code for a context by one rule: what a process has from its start is there before the code. Variables are the
// sandbox's, the first line sets the arguments. All else is as in a one-shot run, the status and the exit code too.
func (tr *trial) inContext(r sandbox.Request) engine.Exec {
	if len(r.Args) > 0 {
		r.Code = append(fmt.Appendf(nil, "import sys; sys.argv[1:] = %q.split()\n", strings.Join(r.Args, " ")), r.Code...)
	}
	r.Args, r.Env = nil, nil
	return engine.Exec{Context: attacked, Request: r}
}

// moveIn returns the trial's home, which it makes if there is none with these limits and this language.
func (tr *trial) moveIn(ctx context.Context, spec sandbox.Spec, language string) (*home, error) {
	if tr.home != nil && tr.home.limits == spec.Limits && tr.home.language == language {
		return tr.home, nil
	}
	tr.moveOut()
	limits := spec.Limits
	spec.Env = tr.params()
	s, _, err := tr.arena.engine.Create(ctx, engine.Living{Spec: spec})
	if err != nil {
		return nil, err
	}
	tr.home = &home{s, limits, language}
	_, err = s.CreateContext(ctx, attacked, language, "")
	for _, l := range tr.arena.engine.Languages() {
		if err == nil {
			_, err = s.CreateContext(ctx, l.Name, l.Name, "")
		}
		if err == nil {
			_, err = tr.home.asks(ctx, l.Name, l.Name, witnesses[l.Name].hold)
		}
	}
	return tr.home, err
}

// moveOut ends the trial's home, if there is one.
func (tr *trial) moveOut() {
	if tr.home == nil {
		return
	}
	if err := tr.home.Close(); err != nil {
		tr.wrong("close the living sandbox: %v", err)
	}
	tr.home = nil
}

// asks runs code of our own in a context and returns all that it wrote.
func (h *home) asks(ctx context.Context, name, lang, code string) (string, error) {
	r, err := h.Run(ctx, engine.Exec{Context: name, Request: sandbox.Request{Language: lang, Code: []byte(code), Timeout: probeTime}})
	if err != nil {
		return "", err
	}
	return string(r.Stdout.Head) + string(r.Stderr.Head), nil
}

// undisturbed checks after an execution that the other contexts have kept their state, that its own answers once it is restarted, and that
// none gets a byte of the attack's output. Only what exhausted the sandbox's memory, or killed its guest, may end the sandbox.
func (tr *trial) undisturbed(r *sandbox.Result) {
	ctx, h := tr.within(), tr.home
	exhausted := r.Status == sandbox.StatusOutOfMemory || r.Status == sandbox.StatusLost
	if err := h.Ended(); err != nil {
		if !exhausted {
			tr.wrong("it ended as %s, and its sandbox with it: %v", r.Status, err)
		}
		tr.moveOut()
		return
	}
	for _, l := range tr.arena.engine.Languages() {
		code := witnesses[l.Name]
		answer, err := h.asks(ctx, l.Name, l.Name, code.show)
		if answer != shown && (exhausted || tr.excuses("neighbours")) { // it begins anew
			_, _ = h.asks(ctx, l.Name, l.Name, code.hold)
			answer, err = h.asks(ctx, l.Name, l.Name, code.show)
		}
		if answer != shown {
			tr.wrong("after %s the other context in %s answers %.2000q, %v", r.Status, l.Name, answer, err)
		}
	}
	c, err := h.Context(attacked)
	if err == nil {
		err = c.Restart(ctx)
	}
	if err != nil {
		tr.wrong("restart its context: %v", err)
		return
	}
	code := witnesses[h.language]
	if answer, err := h.asks(ctx, attacked, h.language, code.hold+"\n"+code.show); answer != shown {
		tr.wrong("after a restart its context answers %.2000q, %v", answer, err)
	}
}

// box makes the sandbox in which a probe runs while the host makes its own calls.
func (tr *trial) box(spec sandbox.Spec) (sandbox.Box, error) {
	if !tr.arena.options.Contexts {
		return tr.arena.spy.Create(tr.within(), spec)
	}
	tr.moveOut()
	if _, err := tr.moveIn(tr.within(), tr.request(nil).Spec, tr.Lang); err != nil {
		return nil, err
	}
	seen := tr.arena.spy.sightings(tr.nonce)
	return seen[len(seen)-1].box, nil
}

// launchInContext starts the probe as code in a context. The returned function waits for its end.
func (l *living) launchInContext(take func([]byte)) (follow func()) {
	asks := l.tr.inContext(l.tr.request(l.tr.code).Request)
	asks.Request.Output = func(_ sandbox.Stream, data []byte) { take(data) }
	x, err := l.tr.home.Start(l.tr.ctx, asks)
	if err != nil {
		l.tr.giveUp("start the probe: %v", err)
	}
	l.code = x
	return func() { <-x.Done() }
}

// closeHome ends the probe, if there is one, and then its sandbox.
func (l *living) closeHome() {
	if x := l.code; x != nil {
		x.Cancel()
		r, err := x.Wait(l.tr.within())
		if err != nil {
			l.tr.wrong("end the probe: %v", err)
		} else {
			l.tr.undisturbed(r)
		}
	}
	l.tr.moveOut()
}

// driverTimeout is the deadline of code that may have broken its driver so that it never reports the end.
const driverTimeout = 3 * time.Second

// otherDrivers attacks the drivers of other languages. Broken ones end as they like: what counts is what is undisturbed.
func (tr *trial) otherDrivers() {
	if !tr.arena.options.Contexts {
		return
	}
	for lang, code := range tr.drivers {
		run := tr.request(nil)
		run.Request.Language, run.Request.Code, run.Request.Timeout = lang, code, driverTimeout
		r := tr.do(tr.within(), run)
		if tr.noBreach(r); !strings.HasPrefix(string(r.Stdout.Head), "done\n") || r.Status == sandbox.StatusLost || r.Status == sandbox.StatusCanceled {
			tr.wrong("%s: %s, stdout %q, stderr %q", lang, r.Status, tail(r.Stdout), tail(r.Stderr))
		}
		tr.note("%s ended as %s, exit code %d, signal %d", lang, r.Status, r.ExitCode, r.Signal)
	}
}

// released checks that the engine holds nothing for the trial: no slot, no box. Only an arena with one trial at a time can tell.
func (tr *trial) released() {
	tr.moveOut()
	for end := time.Now().Add(settleTime); ; time.Sleep(time.Millisecond) {
		s := tr.arena.engine.Stats()
		switch {
		case s.Panics > 0:
			tr.wrong("%d panics were contained: %s", s.Panics, tr.arena.log.String())
			return
		case !tr.arena.alone || s.Running+s.Queued+s.Closing+s.Live == 0:
			return
		case time.Now().After(end):
			tr.wrong("the engine still holds %d slots and %d boxes; %d runs wait", s.Running, s.Live+s.Closing, s.Queued)
			return
		}
	}
}
