package attack

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// trial is one attack in one arena.
type trial struct {
	record
	attack   *Attack
	arena    *Arena
	nonce    string
	port     int
	deadline time.Duration // of the probe: the attack's own, or a later one
	hurried  bool          // the attack's own deadline passed before the probe began
	home     *home         // where code runs in contexts, if there is one
}

// stepTimeout ends a step that hangs; no result depends on it.
const stepTimeout = 2 * time.Minute

// stepContext returns a context that ends with the trial or after stepTimeout.
func (tr *trial) stepContext() context.Context {
	ctx, cancel := context.WithTimeout(tr.ctx, stepTimeout)
	tr.later(cancel)
	return ctx
}

// userSpace reports whether the sandbox has its own user-space kernel.
func (tr *trial) userSpace() bool { return tr.arena.kernel == sandbox.KernelUserSpace }

// containers are the backends that use containers of an engine.
var containers = []string{"docker", "podman"}

func (tr *trial) isContainer() bool { return slices.Contains(containers, tr.arena.spy.Name()) }

// exceptions are the further expectations for this backend.
func (tr *trial) exceptions() (list []*exception) {
	for kind, is := range map[string]bool{"user-space": tr.userSpace(), "container": tr.isContainer(),
		"podman":  tr.arena.spy.Name() == "podman",
		"context": tr.arena.options.Contexts} {
		if is {
			list = append(list, tr.attack.except[kind])
		}
	}
	return list
}

// run runs the attack by its driver, or as its header says.
func (tr *trial) run() {
	if tr.attack.stage.drive != "" {
		drive := drivers[tr.attack.stage.drive]
		if drive == nil {
			tr.giveUp("there is no driver %q", tr.attack.stage.drive)
		}
		drive(tr)
		return
	}
	switch tr.attack.second {
	case "alongside":
		tr.alongside()
	case "after":
		tr.executeAndJudge(tr.attack.code)
		tr.closeHome()
		tr.executeAndJudge(tr.attack.secondCode)
	case "anew":
		tr.executeAndJudge(tr.attack.code)
		tr.executeAndJudge(tr.attack.secondCode)
		tr.otherDrivers()
	default:
		tr.executeAndJudge(tr.attack.code)
	}
}

// drivers are the drivers that attacks name. init breaks a cycle: drivers call trial.run, which reads the table.
var drivers map[string]func(*trial)

func init() {
	drivers = map[string]func(*trial){
		"K15": driveCalls, "F03": driveDirs, "F11": driveRace, "P07": driveRoot, "V01": drivePosture, "V05": driveCore,
		"R01": driveVictim, "victim": driveVictim, "memory": driveMemory, "R04": driveDisk, "R06": driveFiles,
		"R07": driveCPU, "R11": driveOpaque, "prompt": drivePrompt, "T10": driveEnds, "E12": driveInbound,
		"S03": driveRandom, "S05": driveErrors, "A01": drivePaths, "A02": driveLinksOut, "A07": driveSlip,
		"A09": driveOwners, "A10": driveChanging, "A11": driveNames, "A13": driveLateUpload, "returned": driveReturned,
		"O01": driveFlood, "O02": driveBytes, "O04": driveStreams, "O05": driveOrder, "O07": driveLog, "S06": driveName,
		"G04": drivePlanted, "G05": driveSwap,
		"volume": driveVolume, "E18": driveCeiling, "E19": driveDescriptors, "E20": driveHeads, "S10": driveSecret,
	}
}

// params returns the probe's variables.
func (tr *trial) params() []string {
	p := append(tr.arena.canaries.Parameters(tr.nonce), "PORT="+strconv.Itoa(tr.port), "LINGER=600", "WALLED=1",
		"TARGET=/etc")
	names := []string{"PARAMETERS"}
	for _, v := range p {
		name, _, _ := strings.Cut(v, "=")
		names = append(names, name)
	}
	return append(p, "PARAMETERS="+strings.Join(names, ","))
}

// enforcedLimits returns the attack's limits, without that on files if the backend cannot enforce it: memory limits
// them.
func (tr *trial) enforcedLimits() sandbox.Limits {
	limits := tr.attack.limits
	if !sandbox.HasFeature(tr.arena.spy.Backend, sandbox.FeatureInodes) {
		limits.Inodes = 0
	}
	return limits
}

// request returns a run of the probe with the attack's limits. It returns all files, as their collection is under
// attack too.
func (tr *trial) request(code []byte) engine.OneShot {
	return engine.OneShot{
		Spec: sandbox.Spec{Limits: tr.enforcedLimits(), Metadata: map[string]string{labelTrial: tr.nonce},
			AllowUnenforced: tr.waived(), Network: tr.arena.outside.policy(tr.attack.stage.network)},
		Request: sandbox.Request{Language: tr.attack.Lang, Code: tr.attack.source(code), Env: tr.params(),
			Timeout: tr.deadline,
			Return:  sandbox.Return{Globs: []string{"**"}}},
	}
}

// waived returns the limits that the attack waives here, never the limit under attack.
func (tr *trial) waived() []string {
	return slices.DeleteFunc(slices.Clone(tr.arena.weaker),
		func(name string) bool { return tr.attack.limits.Get(sandbox.LimitName(name)) != 0 })
}

func (tr *trial) execute(code []byte) *sandbox.Result {
	return tr.do(tr.stepContext(), tr.request(code))
}

func (tr *trial) executeAndJudge(code []byte) *sandbox.Result {
	r := tr.execute(code)
	tr.judge(r)
	return r
}

// do makes a run. It gives up if the run fails with an error.
func (tr *trial) do(ctx context.Context, run engine.OneShot) *sandbox.Result {
	stop := func() {}
	if tr.attack.watch {
		stop = tr.watchGuest()
	}
	r, err := tr.perform(ctx, run)
	stop()
	if err != nil && sandbox.KindOf(err) == sandbox.Unsupported {
		tr.skip("this host lacks a feature that the attack requires: %v", err)
	}
	if err != nil {
		tr.giveUp("run: %v", err)
	}
	tr.searchOutput(r)
	return r
}

// alongside runs the second probe while the first sandbox is alive.
func (tr *trial) alongside() {
	var second *sandbox.Result
	first := tr.runUntil("ready", tr.request(tr.attack.code), func() { second = tr.execute(tr.attack.secondCode) })
	tr.checkBreaches(first)
	if second == nil {
		tr.giveUp("the first sandbox was never ready: %s\n%s\n%s", first.Status, first.Stdout.Head, first.Stderr.Head)
	}
	tr.judge(second)
}

// runUntil makes a run, calls do once the probe has printed a line with this word, and then cancels the run.
func (tr *trial) runUntil(word string, run engine.OneShot, do func()) *sandbox.Result {
	ctx, cancel := context.WithCancel(tr.stepContext())
	defer cancel()
	ready, over := make(chan struct{}), make(chan struct{})
	take := onLine(word, func() { close(ready) })
	run.Request.Timeout = probeTime
	run.Request.Output = func(_ sandbox.Stream, data []byte) { take(data) }
	var done sync.WaitGroup
	done.Go(func() {
		select {
		case <-ready:
			do()
			cancel()
		case <-over:
		}
	})
	r := tr.do(ctx, run)
	close(over)
	done.Wait()
	return r
}

// guestSharesID reports whether the guest has the code's id, so that the code can end it, and its own sandbox.
func (tr *trial) guestSharesID() bool {
	seen := tr.arena.spy.sightings(tr.nonce)
	return len(seen) > 0 && seen[0].box.Effective().HostUID == "shared"
}

// judge checks the status and the output of a probe.
func (tr *trial) judge(r *sandbox.Result) {
	statuses := tr.attack.statuses
	if tr.guestSharesID() {
		statuses = append(slices.Clone(statuses), tr.attack.shared.statuses...)
	}
	for _, x := range tr.exceptions() {
		statuses = append(slices.Clone(statuses), x.statuses...)
	}
	if !slices.Contains(statuses, r.Status) {
		tr.checkBreaches(r)
		text := fmt.Sprintf("it ended as %s, not as %v; exit code %d, signal %d, hints %+v\nstdout: %s\nstderr: %s",
			r.Status, statuses, r.ExitCode, r.Signal, r.Hints, tail(r.Stdout), tail(r.Stderr))
		if r.Status == sandbox.StatusTimeout || r.Status == sandbox.StatusFailed || r.Status == sandbox.StatusCanceled {
			tr.giveUp("%s", text) // a slow host or a failed probe shows nothing
		}
		tr.fail("%s", text)
		return
	}
	tr.checkBreaches(r)
	if r.Status == sandbox.StatusLost || r.Status == sandbox.StatusKilled &&
		slices.Contains(tr.attack.shared.statuses, sandbox.StatusKilled) {
		return
	}
	for _, want := range tr.wanted() {
		if want.Match(r.Stdout.Head) {
			continue
		}
		if tr.hurried = r.Status == sandbox.StatusTimeout && tr.deadline == tr.attack.timeout; tr.hurried {
			tr.giveUp("after %v, its deadline, stdout had no line %s yet", tr.deadline, want)
		} else {
			tr.fail("stdout has no line %s\nstdout: %s\nstderr: %s", want, tail(r.Stdout), tail(r.Stderr))
		}
	}
}

func (tr *trial) wanted() []*regexp.Regexp {
	for _, x := range tr.exceptions() {
		if len(x.want) > 0 {
			return x.want
		}
	}
	return tr.attack.want
}

// excuses reports whether a breach is accepted with this isolation, or because the guest has the code's id.
func (tr *trial) excuses(breach string) bool {
	begins := func(word string) bool { return strings.HasPrefix(breach, word) }
	if tr.guestSharesID() && slices.ContainsFunc(tr.attack.shared.excused, begins) {
		return true
	}
	return slices.ContainsFunc(tr.exceptions(), func(x *exception) bool {
		return slices.ContainsFunc(x.excused, func(words string) bool {
			return strings.HasPrefix(breach+" ", words+" ")
		})
	})
}

// checkBreaches fails if the probe reports a breach.
func (tr *trial) checkBreaches(r *sandbox.Result) {
	for _, text := range [][]byte{r.Stdout.Head, r.Stdout.Tail, r.Stderr.Head, r.Stderr.Tail} {
		for line := range strings.Lines(string(text)) {
			rest, ok := strings.CutPrefix(strings.TrimSuffix(line, "\n"), "breach: ")
			if ok && !tr.excuses(rest) {
				tr.fail("%s", strings.TrimSuffix(line, "\n"))
			}
		}
	}
}

// searchOutput searches all output for planted values.
func (tr *trial) searchOutput(r *sandbox.Result) {
	streams := [][]byte{r.Stdout.Head, r.Stdout.Tail, r.Stderr.Head, r.Stderr.Tail, []byte(fmt.Sprint(r.Hints))}
	for _, f := range r.Files {
		streams = append(streams, f.Data, []byte(f.Path))
	}
	for _, f := range r.Skipped {
		streams = append(streams, []byte(f.Path+f.Reason))
	}
	for _, s := range streams {
		if what := tr.arena.canaries.Found(s); what != "" {
			tr.fail("%s came out:\n%.2000s", what, s)
		}
	}
}

func tail(c sandbox.Captured) string {
	text := slices.Concat(c.Head, c.Tail)
	return string(text[max(0, len(text)-4000):])
}

// watchGuest fails if the guest is stopped or traced before stop is called.
func (tr *trial) watchGuest() (stop func()) {
	failed := false
	return poll(2*time.Millisecond, func() {
		for _, g := range tr.arena.spy.sightings(tr.nonce) {
			for _, pid := range g.inner {
				if lines := statusLines(pid, pid, "State", "TracerPid"); !failed && isHeld(lines) {
					failed = true
					tr.fail("the guest: %s", lines)
				}
			}
		}
	})
}

// poll repeats do until stop is called.
func poll(pause time.Duration, do func()) (stop func()) {
	over := make(chan struct{})
	var done sync.WaitGroup
	done.Go(func() {
		for {
			select {
			case <-over:
				return
			case <-time.After(pause):
				do()
			}
		}
	})
	return sync.OnceFunc(func() {
		close(over)
		done.Wait()
	})
}

// onLine returns a function that takes output, and calls do once the output has this line.
func onLine(line string, do func()) (take func([]byte)) {
	out, once := []byte("\n"), sync.OnceFunc(do)
	return func(data []byte) {
		if len(out) < 1<<16 {
			if out = append(out, data...); bytes.Contains(out, []byte("\n"+line+"\n")) {
				once()
			}
		}
	}
}

// isHeld reports from a process's State and TracerPid lines whether it is stopped or traced.
func isHeld(lines string) bool {
	return strings.HasPrefix(lines, "State T") || strings.HasPrefix(lines, "State t") ||
		strings.Contains(lines, "Tracer") && !strings.Contains(lines, "TracerPid 0")
}

// checkLeftovers checks that nothing is left of the trial's sandboxes.
func (tr *trial) checkLeftovers() {
	late, left := tr.arena.spy.leftOf(tr.nonce)
	for _, what := range left {
		tr.fail("%s", what)
	}
	for _, what := range late {
		tr.remark("%s", what)
	}
}

// slack is what a busy host may add to a time limit; a hang takes longer. More than usualSlack is reported.
const (
	slack      = time.Minute
	usualSlack = 3 * time.Second
)

// checkDuration compares a duration with its limit.
func (tr *trial) checkDuration(what string, took, bound time.Duration) {
	switch {
	case took > bound+slack:
		tr.fail("%s took %v; its bound is %v", what, took, bound)
	case took > bound+usualSlack:
		tr.remark("%s took %v; its bound is %v", what, took, bound)
	}
}

// checkJSON fails if a result cannot be encoded as JSON and read back.
func (tr *trial) checkJSON(r *sandbox.Result) {
	for _, f := range r.Files {
		text, err := json.Marshal(f.Path)
		var back string
		if err != nil || json.Unmarshal(text, &back) != nil {
			tr.fail("the name %q cannot be encoded: %v", f.Path, err)
		}
	}
}
