package attack

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// attacked is the name of the context in which the attack runs.
const attacked = "attacked"

// witnesses is the code of the other contexts, one of each language, named after it. The first run sets a variable, and
// later runs print it: the attack must not disturb them.
var witnesses = map[string]struct{ hold, show string }{
	"python":     {"held = 40", "print(held + 2)"},
	"javascript": {"var held = 40", "console.log(held + 2)"},
	"bash":       {"held=40", "echo $((held + 2))"},
}

const witnessOutput = "42\n"

// home is a living sandbox for the runs of a trial that have the same limits.
type home struct {
	sandbox  *engine.Sandbox
	limits   sandbox.Limits
	language string // of the context attacked
}

// perform makes a run: in a sandbox of its own, or as code in a context.
func (tr *trial) perform(ctx context.Context, run engine.OneShot) (*sandbox.Result, error) {
	if !tr.arena.options.Contexts {
		return tr.arena.engine.Run(ctx, run)
	}
	h, err := tr.openHome(ctx, run.Spec, run.Request.Language)
	if err != nil {
		return nil, err
	}
	r, err := h.sandbox.Run(ctx, tr.inContext(run.Request))
	if err == nil {
		tr.checkNeighbours(r)
	}
	return r, err
}

// inContext turns a one-shot run into code for a context. The sandbox has the variables, and the first line of the code
// sets the arguments. The status and the exit code must be those of a one-shot run.
func (tr *trial) inContext(r sandbox.Request) engine.RunRequest {
	if len(r.Args) > 0 {
		r.Code = append(fmt.Appendf(nil, "import sys; sys.argv[1:] = %q.split()\n", strings.Join(r.Args, " ")),
			r.Code...)
	}
	r.Args, r.Env = nil, nil
	return engine.RunRequest{Context: attacked, Request: r}
}

// openHome returns the trial's home. It makes a new one for other limits or another language.
func (tr *trial) openHome(ctx context.Context, spec sandbox.Spec, language string) (*home, error) {
	if tr.home != nil && tr.home.limits == spec.Limits && tr.home.language == language {
		return tr.home, nil
	}
	tr.closeHome()
	limits := spec.Limits
	spec.Env = tr.params()
	s, _, err := tr.arena.engine.Create(ctx, engine.Create{Spec: spec})
	if err != nil {
		return nil, err
	}
	tr.home = &home{s, limits, language}
	_, err = s.CreateContext(ctx, engine.ContextRequest{Name: attacked, Language: language})
	for _, l := range tr.arena.engine.Languages() {
		if err == nil {
			_, err = s.CreateContext(ctx, engine.ContextRequest{Name: l.Name, Language: l.Name})
		}
		if err == nil {
			_, err = tr.home.eval(ctx, l.Name, l.Name, witnesses[l.Name].hold)
		}
	}
	return tr.home, err
}

// closeHome ends the trial's home, if there is one.
func (tr *trial) closeHome() {
	if tr.home == nil {
		return
	}
	if err := tr.home.sandbox.Close(); err != nil {
		tr.fail("close the living sandbox: %v", err)
	}
	tr.home = nil
}

// eval runs code of the suite in a context and returns its output.
func (h *home) eval(ctx context.Context, name, lang, code string) (string, error) {
	r, err := h.sandbox.Run(ctx, engine.RunRequest{Context: name,
		Request: sandbox.Request{Language: lang, Code: []byte(code), Timeout: probeTime}})
	if err != nil {
		return "", err
	}
	return string(r.Stdout.Head) + string(r.Stderr.Head), nil
}

// checkNeighbours checks after a run that the other contexts have kept their state, that the attacked context works
// after a restart, and that no context gets a byte of the attack's output. The sandbox may only have ended if the
// attack exhausted its memory or killed its guest.
func (tr *trial) checkNeighbours(r *sandbox.Result) {
	ctx, h := tr.stepContext(), tr.home
	exhausted := r.Status == sandbox.StatusOutOfMemory || r.Status == sandbox.StatusLost
	if err := h.sandbox.Ended(); err != nil {
		if !exhausted {
			tr.fail("it ended as %s, and its sandbox with it: %v", r.Status, err)
		}
		tr.closeHome()
		return
	}
	for _, l := range tr.arena.engine.Languages() {
		code := witnesses[l.Name]
		answer, err := h.eval(ctx, l.Name, l.Name, code.show)
		if answer != witnessOutput && (exhausted || tr.excuses("neighbours")) { // it was restarted
			_, _ = h.eval(ctx, l.Name, l.Name, code.hold)
			answer, err = h.eval(ctx, l.Name, l.Name, code.show)
		}
		if answer != witnessOutput {
			tr.fail("after %s the other context in %s answers %.2000q, %v", r.Status, l.Name, answer, err)
		}
	}
	c, err := h.sandbox.Context(attacked)
	if err == nil {
		err = c.Restart(ctx)
	}
	if err != nil {
		tr.fail("restart its context: %v", err)
		return
	}
	code := witnesses[h.language]
	if answer, err := h.eval(ctx, attacked, h.language, code.hold+"\n"+code.show); answer != witnessOutput {
		tr.fail("after a restart its context answers %.2000q, %v", answer, err)
	}
}

// newBox makes a sandbox in which a probe runs while the host makes calls to its guest.
func (tr *trial) newBox(spec sandbox.Spec) (sandbox.Box, error) {
	if !tr.arena.options.Contexts {
		return tr.arena.spy.Create(tr.stepContext(), spec)
	}
	tr.closeHome()
	if _, err := tr.openHome(tr.stepContext(), tr.request(nil).Spec, tr.attack.Lang); err != nil {
		return nil, err
	}
	seen := tr.arena.spy.sightings(tr.nonce)
	return seen[len(seen)-1].box, nil
}

// launchInContext starts the probe as code in a context. The returned function waits for its end.
func (l *living) launchInContext(take func([]byte)) (follow func()) {
	exec := l.tr.inContext(l.tr.request(l.tr.attack.code).Request)
	exec.Request.Output = func(_ sandbox.Stream, data []byte) { take(data) }
	x, err := l.tr.home.sandbox.Start(l.tr.ctx, exec)
	if err != nil {
		l.tr.giveUp("start the probe: %v", err)
	}
	l.code = x
	return func() { <-x.Done() }
}

// endProbe ends the probe, if there is one, and then its sandbox.
func (l *living) endProbe() {
	if x := l.code; x != nil {
		x.Cancel()
		r, err := x.Wait(l.tr.stepContext())
		if err != nil {
			l.tr.fail("end the probe: %v", err)
		} else {
			l.tr.checkNeighbours(r)
		}
	}
	l.tr.closeHome()
}

// driverTimeout is the deadline of code that may have broken its driver so that it never reports the end.
const driverTimeout = 3 * time.Second

// otherDrivers attacks the drivers of other languages. A broken driver may end in any way that disturbs nothing else.
func (tr *trial) otherDrivers() {
	if !tr.arena.options.Contexts {
		return
	}
	for lang, code := range tr.attack.drivers {
		run := tr.request(nil)
		run.Request.Language, run.Request.Code, run.Request.Timeout = lang, code, driverTimeout
		r := tr.do(tr.stepContext(), run)
		if tr.checkBreaches(r); !strings.HasPrefix(string(r.Stdout.Head), "done\n") || r.Status == sandbox.StatusLost ||
			r.Status == sandbox.StatusCanceled {
			tr.fail("%s: %s, stdout %q, stderr %q", lang, r.Status, tail(r.Stdout), tail(r.Stderr))
		}
		tr.note("%s ended as %s, exit code %d, signal %d", lang, r.Status, r.ExitCode, r.Signal)
	}
}

// checkReleased checks that the engine holds nothing for the trial: no slot, no box. Only an arena with one trial at a
// time can check it.
func (tr *trial) checkReleased() {
	tr.closeHome()
	for end := time.Now().Add(settleTime); ; time.Sleep(time.Millisecond) {
		s := tr.arena.engine.Stats()
		switch {
		case s.Panics > 0:
			tr.fail("%d panics were contained: %s", s.Panics, tr.arena.log.String())
			return
		case !tr.arena.alone || s.Running+s.Queued+s.Closing+s.Live == 0:
			return
		case time.Now().After(end):
			tr.fail("the engine still holds %d slots and %d boxes; %d runs wait", s.Running, s.Live+s.Closing, s.Queued)
			return
		}
	}
}
