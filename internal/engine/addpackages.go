package engine

import (
	"context"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cputime"
	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// packagesDir is the folder, beside the logs of runs, of the packages of living sandboxes.
const packagesDir = "packages"

// packagesOf is the folder of one sandbox's packages.
func (e *Engine) packagesOf(id sandbox.ID) (string, error) {
	dir, err := e.state.folder()
	return filepath.Join(dir, packagesDir, string(id)), err
}

// packageFolder returns the folder of a language's packages, relative to packagesOf.
func packageFolder(in *sandbox.Installer) string {
	return strings.ReplaceAll(strings.Trim(in.At, "/"), "/", "-")
}

// placePackages mounts an empty host folder per language, read-only, into a living sandbox. Packages added later appear
// there at once. On a backend that cannot show folders of this host, packages cannot be added.
func (e *Engine) placePackages(b sandbox.Backend, spec *sandbox.Spec) error {
	if e.config.Packages == nil {
		return nil
	}
	state, err := e.state.folder()
	if err != nil {
		return err
	}
	placed, tried := *spec, *spec
	placed.Mounts, tried.Mounts = slices.Clone(spec.Mounts), slices.Clone(spec.Mounts)
	for _, l := range e.config.Languages {
		in := l.Installer
		if in == nil || in.Install == nil ||
			slices.ContainsFunc(placed.Mounts, func(m sandbox.Mount) bool { return m.Target == in.At }) {
			continue
		}
		placed.Mounts = append(placed.Mounts,
			sandbox.Mount{Source: filepath.Join(state, packagesDir, string(spec.ID), packageFolder(in)), Target: in.At})
		tried.Mounts = append(tried.Mounts, sandbox.Mount{Source: state, Target: in.At}) // which exists
		placed.Env = plan.AddPaths(placed.Env, in.Path)
	}
	if p, ok := b.(sandbox.Preflighter); ok {
		if _, refusal := p.Preflight(tried); refusal != nil {
			return nil // Create reports any other refusal
		}
	}
	*spec = placed
	spec.Env = append(spec.Env, sandbox.PackagesVariable+"=1")
	return nil
}

// makePackages makes the folders of placePackages.
func (e *Engine) makePackages(spec sandbox.Spec) error {
	root, err := e.packagesOf(spec.ID)
	if err != nil {
		return err
	}
	for _, m := range spec.Mounts {
		if strings.HasPrefix(m.Source, root+"/") {
			err := os.MkdirAll(m.Source, 0o755)
			if err == nil {
				err = os.Chmod(m.Source, 0o755) // the code's user enters it, whatever our umask is
			}
			if err != nil {
				return &sandbox.Error{Kind: sandbox.Unavailable, Op: "create: make the folder of its packages",
					Err: err}
			}
		}
	}
	return nil
}

func (e *Engine) removePackages(id sandbox.ID) error {
	dir, err := e.packagesOf(id)
	if err != nil {
		return err
	}
	return os.RemoveAll(dir)
}

// removalWait is how long a removal waits for additions of its owner, which may wait for a slot.
const removalWait = 5 * time.Second

// removePackages removes the packages of the sandbox in its owner's turn.
func (s *Sandbox) removePackages() error {
	turns := s.engine.living.linking
	if len(s.record.Packages) > 0 && turns.Wait(s.engine.stop, s.owner, 1, removalWait) {
		defer turns.Give(s.owner, 1)
	}
	return s.engine.removePackages(s.id)
}

// addedPackages are the packages that a run adds before it starts.
type addedPackages struct {
	asked *sandbox.Packages // nil: none
	magic sandbox.MagicInstalls
	lines int // of progress in its log
}

// planPackages finds out what the run adds: what it requests, and what its code does by lines such as "%pip install
// requests".
func (x *Run) planPackages() error {
	if err := x.sandbox.engine.checkPackages(&x.job); err != nil {
		return err
	}
	asked, l, placed := x.Request.Packages, x.Installs, x.sandbox.takesPackages()
	requested := asked.Requirements
	if x.Request.Code != nil && l.Installer != nil && l.Installer.Magic != nil &&
		slices.Contains(x.Spec.Env, sandbox.PackagesVariable+"=1") { // whose driver skips such lines
		x.adding.magic = l.Installer.Magic(x.Request.Code)
		asked.Requirements = slices.Concat(requested, x.adding.magic.Requirements)
	}
	if !asked.Any() && len(x.adding.magic.Files) == 0 {
		return nil
	}
	if err := sandbox.CheckRequirements(len(asked.Requirements)); err != nil {
		return err
	}
	if err := l.Installer.Check(requested, x.adding.magic.Requirements); err != nil {
		return err
	}
	if asked.Lock != "" { // it lists all packages, so those in the sandbox would be removed
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "lock",
			Msg: "is only supported for one-shot runs", Fix: "name the packages, with versions"}
	}
	if !placed && l.Installer.Install != nil {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "packages", Msg: "none can be added to this sandbox",
			Fix: "use what is installed"}
	}
	x.adding.asked = &asked
	return nil
}

// addAll adds packages by language.
func (s *Sandbox) addAll(ctx context.Context, packages map[string]sandbox.Packages) error {
	for _, language := range slices.Sorted(maps.Keys(packages)) {
		if err := s.AddPackages(ctx, language, packages[language]); err != nil {
			return err
		}
	}
	return nil
}

// AddPackages adds packages of a language. Errors are those of a run that requests them.
func (s *Sandbox) AddPackages(ctx context.Context, language string, packages sandbox.Packages) error {
	x, err := s.planned(RunRequest{ID: sandbox.NewID(), Request: sandbox.Request{Command: []string{"true"},
		Language: language, Packages: packages}}) // the command is never started
	if err == nil {
		err = x.planPackages()
	}
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(s.life, func() { cancel(s.Ended()) })()
	done, err := s.use()
	if err != nil {
		return err
	}
	defer done()
	if err := s.queue(); err != nil {
		return err
	}
	defer s.addWaiting(-1)
	return x.addPackages(ctx)
}

// addPackages installs what the run adds, together with what was added before. The sandbox sees it at once.
func (x *Run) addPackages(ctx context.Context) error {
	if x.adding.asked == nil {
		return nil
	}
	if x.context != nil { // whose turn it has
		x.context.add(x)
		defer x.context.add(nil)
	}
	defer x.leaveQueue()
	defer x.progress("")
	return x.installPackages(ctx)
}

// maxProgress limits the lines of progress in a log; an installer may write any number.
const maxProgress = 1000

// progress reports a step before the run begins; "" is the end of all.
func (x *Run) progress(line string) {
	switch {
	case x.log.Log == nil: // it is not a run of a client
	case line != "" && x.adding.lines < maxProgress:
		x.adding.lines++
		x.logValue(eventlog.Progress, 0, []byte(line))
	case line == "" && x.adding.lines > 0:
		x.logValue(eventlog.Progress, 0, nil)
	}
	if x.req.Request.Progress != nil {
		x.req.Request.Progress(line)
	}
}

// MayNeedPackages reports whether code may import packages that the sandbox lacks and that can be added to it. It is a
// glance: false is certain for languages that support it, and is the answer for all others.
func (s *Sandbox) MayNeedPackages(language string, code []byte) bool {
	l, err := s.engine.Language(language)
	in := l.Installer
	return err == nil && in != nil && in.NeedsNone != nil && s.takesPackages() && !in.NeedsNone(code, nil)
}

// takesPackages reports whether packages can be added.
func (s *Sandbox) takesPackages() bool {
	return s.engine.config.Packages != nil && s.engine.hasPackages(s.spec())
}

// hasPackages reports whether a sandbox of the spec has folders of placePackages.
func (e *Engine) hasPackages(spec sandbox.Spec) bool {
	return len(e.otherMounts(spec)) < len(spec.Mounts)
}

// otherMounts are the mounts of a spec but for those of placePackages.
func (e *Engine) otherMounts(spec sandbox.Spec) []sandbox.Mount {
	if len(spec.Mounts) == 0 {
		return nil
	}
	root, err := e.packagesOf(spec.ID)
	if err != nil {
		return spec.Mounts
	}
	return slices.DeleteFunc(slices.Clone(spec.Mounts),
		func(m sandbox.Mount) bool { return strings.HasPrefix(m.Source, root+"/") })
}

// installPackages has the sandbox see packages beside those that it has.
func (x *Run) installPackages(ctx context.Context) error {
	s := x.sandbox
	select {
	case s.locks.installing <- struct{}{}: // or two would undo each other's
		defer func() { <-s.locks.installing }()
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	folder, err := s.engine.packagesOf(s.id)
	if err != nil {
		return err
	}
	asked, in := *x.adding.asked, x.Installs.Installer
	listed, err := x.readRequirements(ctx)
	if err != nil {
		return err
	}
	asked.Requirements = append(slices.Clip(asked.Requirements), listed...)
	folder = filepath.Join(folder, packageFolder(in))
	s.mu.Lock()
	had := s.record.Packages[in.Name] // languages that share an installer share its folder
	s.mu.Unlock()
	kept := x.notUpgraded(had)
	all := sandbox.Packages{AllowBuild: asked.AllowBuild || had.AllowBuild, Auto: asked.Auto,
		Requirements: mergeRequirements(in, kept.Requirements, asked.Requirements)}
	whole := len(had.Requirements) > 0 && s.engine.config.Packages.Linked(folder)
	if !asked.Auto && len(x.adding.magic.Upgrades) == 0 && slices.Equal(all.Requirements, had.Requirements) &&
		len(all.Requirements) > 0 && whole {
		x.packages = had.Installed
		return nil
	}
	need := x.need(all)
	if in.Folder != nil && len(had.Installed) > 0 && whole {
		need.Present = &sandbox.PresentPackages{
			Folder: folder, Requirements: kept.Requirements, Packages: kept.Installed}
	}
	need.Root = rootOf(s.backend, s.spec())
	need.Open, need.Progress, need.Terms = true, x.progress, termsOf(s.owner, s.backend, s.spec())
	need.Lowered = s.engine.ownLower(s.owner)
	supply, err := s.engine.config.Packages.Supply(ctx, need, x.worker())
	if err != nil {
		return err
	}
	defer supply.Release()
	x.packages, x.absent = supply.Packages, absent{supply.Missing, supply.Optional}
	var old []sandbox.Package // other versions of them
	if need.Present != nil {
		x.packages, old = in.Merge(had.Installed, supply.Packages)
	}
	if x.context != nil && x.context.hasRun() {
		if names := replaced(had.Installed, supply.Packages); len(names) > 0 {
			x.found = append(x.found, sandbox.HintRestart{Names: names, Context: x.context.name})
		}
	}
	if in.Install == nil {
		return nil // the result names what is missing
	}
	record := sync.OnceValue(func() error { return s.recordPackages(in, supply.Asked, all, x.packages) })
	err = x.inTurn(ctx, supply, func() error {
		if need.Present == nil {
			return s.showPackages(supply, folder, record)
		}
		return s.addToPackages(in, supply, old, folder, record)
	})
	if err != nil {
		return err
	}
	return record() // of a supply without layers
}

// inTurn calls add for a supply with files, in the turn of the owner and with a slot: the kernel's work for 200,000
// files is that of seconds.
func (x *Run) inTurn(ctx context.Context, supply *sandbox.Supply, add func() error) error {
	if len(supply.Layers) == 0 {
		return nil
	}
	turns, owner := x.sandbox.engine.living.linking, x.sandbox.owner
	if !turns.Wait(ctx, owner, 1, math.MaxInt64) {
		return context.Cause(ctx)
	}
	defer turns.Give(owner, 1)
	return x.inSlot(ctx, add)
}

// replaced names the packages whose version is another now.
func replaced(before, now []sandbox.Package) (names []string) {
	versions := map[string]string{}
	for _, p := range before {
		versions[p.Name] = p.Version
	}
	for _, p := range now {
		if old := versions[p.Name]; old != "" && old != p.Version && diagnose.PlainName(p.Name) != "" {
			names = append(names, p.Name)
		}
	}
	return names
}

// showPackages has the sandbox see the packages of a supply in place of those that it had. record puts them on record
// before the first of them can be seen, so that the next addition keeps what a client may have seen before a kill.
func (s *Sandbox) showPackages(supply *sandbox.Supply, folder string, record func() error) error {
	for _, layer := range supply.Layers {
		if err := s.engine.config.Packages.Show(layer, folder, s.owner, record); err != nil {
			return err
		}
	}
	return nil
}

// addToPackages has the sandbox see the packages of a supply beside those that it had, and in place of old ones.
func (s *Sandbox) addToPackages(in *sandbox.Installer, supply *sandbox.Supply, old []sandbox.Package,
	folder string, record func() error) error {
	var gone []string
	if len(old) > 0 {
		gone = in.Folder.Files(os.DirFS(folder), old)
	}
	for _, layer := range supply.Layers {
		if err := s.engine.config.Packages.Add(layer, folder, s.owner, gone, record); err != nil {
			return err
		}
	}
	return nil
}

// recordPackages puts the packages of an installer on record. found are the requirements, those for imports included.
func (s *Sandbox) recordPackages(in *sandbox.Installer, found []string, all sandbox.Packages,
	installed []sandbox.Package) error {
	all.Auto = false
	all.Requirements = mergeRequirements(in, all.Requirements, found)
	added := sandbox.Added{Packages: all, Installed: slices.Clone(installed)}
	for i := range added.Installed {
		if p := &added.Installed[i]; len(p.Requires) == 0 {
			p.Requires = nil // as it comes back from a store
		}
	}
	return s.amend(func(r *sandbox.Record) {
		packages := maps.Clone(r.Packages) // Info may have returned it
		if packages == nil {
			packages = map[string]sandbox.Added{}
		}
		packages[in.Name] = added
		r.Packages = packages
	})
}

// mergeRequirements adds requirements. One that says more than a name replaces an older one of that package.
func mergeRequirements(in *sandbox.Installer, had, asked []string) []string {
	all := make([]string, 0, len(had)+len(asked))
	places := map[string]int{} // by name
	for i, r := range slices.Concat(had, asked) {
		name := in.NameOf(r)
		old, known := places[name]
		switch {
		case !known:
			places[name] = len(all)
			all = append(all, r)
		case i < len(had):
			all = append(all, r)
		case len(r) > len(name):
			all[old] = r
		}
	}
	return all
}

// worker runs a survey in the sandbox itself, which alone has its files, and an installer in a fresh one like it.
// Neither is a run of a client: nothing checks, logs or lists it.
func (x *Run) worker() sandbox.Worker {
	s, l := x.sandbox, x.Installs
	p := &oneShot{owner: s.owner, backend: s.backend, entered: x.awaited}
	p.Run = &plan.Run{Spec: sandbox.Spec{Root: s.spec().Root, AllowUnenforced: s.spec().AllowUnenforced}, Installs: l}
	apart := s.engine.worker(p)
	return func(ctx context.Context, w sandbox.Work) (*sandbox.Result, error) {
		if !w.Survey {
			return apart(ctx, w)
		}
		if w.Tool != "" {
			// it is only in the way
			defer func() { _ = s.RemoveFile(context.WithoutCancel(ctx), surveyTool+w.Tool, false) }()
		}
		for _, program := range l.Programs {
			result, err := x.survey(ctx, &w, w.Command(program))
			if err != nil || !lacksProgram(result) {
				return result, err
			}
		}
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "packages", Msg: "the sandbox has no " + l.Title}
	}
}

// survey runs a command of a survey, which sees the files of the run.
func (x *Run) survey(ctx context.Context, w *sandbox.Work, command []string) (*sandbox.Result, error) {
	s, e, limits := x.sandbox, x.sandbox.engine, x.sandbox.engine.lowered(x.sandbox.owner, w.Limits)
	rules := e.rulesOf(s.owner)
	p, err := rules.Run(sandbox.Request{
		Command: command, Stdin: w.Stdin, Files: x.Request.Files, Timeout: limits.Timeout}, s.spec())
	if err != nil {
		return nil, err
	}
	p.Spec.Limits.OutputBytes = limits.OutputBytes
	var result *sandbox.Result
	err = x.inSlot(ctx, func() error {
		step := s.newRun(job{Run: p, id: sandbox.NewID(), plain: true, work: w}, RunRequest{})
		step.before = s.measure()
		result, err = step.perform(ctx)
		s.forgetProcess(step.id)
		return err
	})
	return result, err
}

// inSlot calls do with a slot of the owner.
func (x *Run) inSlot(ctx context.Context, do func() error) error {
	e, owner := x.sandbox.engine, x.sandbox.owner
	begun := false
	err := e.admission.take(ctx, owner, func() {
		begun = true
		e.runs.Add(1)
	}, x.awaited)
	if begun { // also if it waited in vain
		defer e.runs.Done()
	}
	if err != nil {
		return err
	}
	started := time.Now()
	defer func() { e.admission.release(owner, time.Since(started)) }()
	defer cputime.Aside(ctx)()
	return do()
}
