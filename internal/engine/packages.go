package engine

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// supplied is what a Packager supplied for a run. Its layers stay as they are until all that share it have released it.
type supplied struct {
	*sandbox.Supply
	shares *atomic.Int32
}

func newSupplied(s *sandbox.Supply) supplied {
	shares := &atomic.Int32{}
	shares.Store(1)
	return supplied{s, shares}
}

func (s supplied) share() supplied {
	if s.Supply != nil {
		s.shares.Add(1)
	}
	return s
}

func (s supplied) release() {
	if s.Supply != nil && s.shares.Add(-1) == 0 {
		s.Release()
	}
}

// surveyTool begins the path of a program of ours that a survey uses.
const surveyTool = "/tmp/fumehood-"

// supply finds and installs the packages that a run asks for, and puts them into its plan. The run has no slot yet;
// each step in a sandbox takes a slot.
func (e *Engine) supply(ctx context.Context, p *oneShot) error {
	if err := e.checkPackages(&p.job); err != nil || !p.Request.Packages.Any() {
		return err
	}
	need := p.need(p.Request.Packages)
	need.Root = rootOf(p.backend, p.Spec)
	need.Open, need.Progress = p.Spec.Workspace != "" || len(p.Spec.Mounts) > 0, p.Request.Progress
	need.Terms, need.Lowered = termsOf(p.owner, p.backend, p.Spec), e.ownLower(p.owner)
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(e.stop, func() { cancel(errStopped) })()
	s, err := e.config.Packages.Supply(ctx, need, e.worker(p))
	if p.Request.Progress != nil {
		p.Request.Progress("")
	}
	if err != nil {
		return err
	}
	p.supplied = newSupplied(s)
	p.packages, p.absent = s.Packages, absent{s.Missing, s.Optional}
	if asked, in := p.Request.Packages, p.Installs.Installer; in.Plain != nil && p.Request.Code != nil &&
		(asked.Auto || asked.Lock != "") {
		p.Request.Code = in.Plain(p.Request.Code)
	}
	p.Spec.Layers = append(slices.Clone(p.Spec.Layers), s.Layers...)
	if len(s.Layers) > 0 {
		p.Env = plan.AddPaths(p.Env, s.Path)
	}
	return nil
}

// checkPackages refuses packages that cannot be had, if any are asked for. Where nothing could be found, auto alone
// asks for nothing.
func (e *Engine) checkPackages(j *job) error {
	asked, l := j.Request.Packages, j.Installs
	named := asked.Named()
	switch {
	case !asked.Any():
		return nil
	case !named && (l == nil || l.Installer == nil):
		j.Request.Packages = sandbox.Packages{}
		return nil
	case l == nil:
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "packages", Msg: "there are no packages to install here"}
	case named && (l.Installer == nil || l.Installer.Install == nil):
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "packages",
			Msg: "there are no packages to install for " + l.Title}
	case e.config.Packages == nil:
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "packages", Msg: "packages are not installed here",
			Fix: "use what is installed"}
	}
	return nil
}

// need describes a job that needs packages.
func (j *job) need(asked sandbox.Packages) sandbox.PackageNeed {
	return sandbox.PackageNeed{Packages: asked, Language: *j.Installs,
		Name: strings.TrimPrefix(j.CodeName, sandbox.Workspace+"/"), Code: j.Request.Code, Files: j.Request.Files}
}

// rootOf returns the root of a spec on a backend.
func rootOf(b sandbox.Backend, spec sandbox.Spec) sandbox.Root {
	root := spec.Root
	if b, ok := b.(sandbox.Rooted); ok && root.Dir == "" && root.Image == "" {
		root.Image = b.Root(spec).Image
	}
	return root
}

// termsOf returns what distinguishes workers: owner, backend and waivers.
func termsOf(owner string, b sandbox.Backend, spec sandbox.Spec) string {
	name := ""
	if b != nil {
		name = b.Name()
	}
	waivers := slices.Sorted(slices.Values(spec.AllowUnenforced))
	return fmt.Sprintf("%q", append([]string{owner, name}, slices.Compact(waivers)...))
}

// Supply finds and installs the packages that a run asks for, and runs nothing. The caller releases what it returns.
func (e *Engine) Supply(ctx context.Context, run OneShot) (*sandbox.Supply, error) {
	p, err := e.resolve(run)
	if err == nil {
		err = e.choose(ctx, p, true)
	}
	if err == nil {
		err = e.supply(ctx, p)
	}
	if err != nil || p.Supply == nil {
		return nil, err
	}
	return p.Supply, nil
}

// worker returns what runs the steps for a run: on its backend and root, with the limits and the network of the step.
func (e *Engine) worker(p *oneShot) sandbox.Worker {
	return func(ctx context.Context, w sandbox.Work) (*sandbox.Result, error) {
		run := OneShot{installs: true, WithoutStart: true, indexed: w.Indexed, Owner: p.owner, Spec: sandbox.Spec{
			Root: p.Spec.Root, Limits: e.lowered(p.owner, w.Limits), Network: w.Network,
			AllowUnenforced: p.Spec.AllowUnenforced}}
		if w.Limits.Inodes > 0 { // where they cannot be limited, the memory that they take is
			run.Spec.AllowUnenforced = append(slices.Clone(run.Spec.AllowUnenforced), string(sandbox.LimitInodes))
		}
		run.Request = sandbox.Request{Stdin: w.Stdin, Output: w.Output}
		if w.Survey {
			run.Spec.Workspace, run.Spec.Mounts, run.Request.Files = p.Spec.Workspace, p.Spec.Mounts, p.Request.Files
		}
		if e.canFork(p, &w) {
			quick := run
			quick.Request.Stdin, quick.Request.Language, quick.Request.Code = nil, p.Installs.Name, w.Code
			if step, err := e.resolve(quick); err == nil {
				step.backend, step.entered = p.backend, p.entered
				if err := e.enterImage(ctx, step, false); err != nil {
					return nil, err
				}
				if result, err := e.runPlan(ctx, step); err != nil || result.Status == sandbox.StatusSucceeded ||
					result.Status == sandbox.StatusCanceled {
					return result, err
				}
			} // else there may be no such interpreter
		}
		for _, program := range p.Installs.Programs {
			run.Request.Command = w.Command(program)
			step, err := e.resolve(run)
			if err != nil {
				return nil, err
			}
			step.backend, step.work, step.entered = p.backend, &w, p.entered
			if err := e.enterImage(ctx, step, false); err != nil {
				return nil, err
			}
			result, err := e.runPlan(ctx, step)
			if err != nil || !lacksProgram(result) {
				return result, err
			}
		}
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "packages", Msg: "the root has no " +
			p.Installs.Title, Fixes: installing(p.Installs)}
	}
}

// canFork reports whether a step is a program for an interpreter that waits, and has its place in the workspace.
func (e *Engine) canFork(p *oneShot, w *sandbox.Work) bool {
	return w.Code != nil && e.config.Warm > 0 && p.Installs.Zygote != nil && p.Spec.Workspace == "" &&
		len(p.Spec.Mounts) == 0 &&
		!slices.ContainsFunc(p.Request.Files, func(f sandbox.File) bool { return f.Path == p.Installs.FileName })
}

func lacksProgram(r *sandbox.Result) bool {
	_, lacks := sandbox.HintOf[sandbox.HintNoCommand](r.Hints)
	return lacks
}

// lowered lowers limits to the most that runs of an owner may have.
func (e *Engine) lowered(owner string, l sandbox.Limits) sandbox.Limits {
	highest := e.rulesOf(owner).Max
	for _, name := range sandbox.LimitNames {
		if most := highest.Get(name); most > 0 && l.Get(name) > most {
			l.Set(name, most)
		}
	}
	if l.DiskBytes > 0 && l.MemoryBytes > 0 {
		l.DiskBytes = min(l.DiskBytes, l.MemoryBytes)
	}
	return l
}

// handOver passes the files of a step to its Take, after all its processes have ended.
func (x *Run) handOver(ctx context.Context, r *sandbox.Result) error {
	if x.work == nil || x.work.Take == nil || r.Status != sandbox.StatusSucceeded {
		return nil
	}
	if err := x.sandbox.killAll(ctx); err != nil {
		return err
	}
	c, err := x.sandbox.connect(ctx)
	if err != nil {
		return err
	}
	request := guest.Pack{Base: x.work.From, MaxFiles: uint64(x.work.MaxFiles), MaxBytes: uint64(x.work.MaxBytes)}
	return c.Pack(ctx, request, func(f guest.FileInfo, content io.Reader) error {
		if err := lacking(&f); err != nil || !client.HasContent(&f) {
			return err // folders are made with their files, and links are left out
		}
		return x.work.Take(fileInfo(f), content)
	})
}

// lacking returns an error for an entry without which a layer would be incomplete, for all that share it.
func lacking(f *guest.FileInfo) error {
	switch {
	case f.Type == guest.FileRegular && f.Err == "" && f.Omitted != "", f.Path == ".":
		return &sandbox.Error{Kind: sandbox.TooLarge, Op: "packages",
			Msg: "they have more files, or larger ones, than a layer may have",
			Fix: "ask for fewer packages",
			Fixes: []sandbox.Hint{sandbox.FixParam{
				Param: "package_cache_size", Values: []string{"SIZE"}, Purpose: "let the cache keep more"}}}
	case f.Err != "":
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "packages", Msg: fmt.Sprintf(
			"a file cannot be read: %.200q: %.200q", f.Path, f.Err)}
	}
	return nil
}
