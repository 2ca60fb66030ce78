package native

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/enforce"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/internal/host/undo"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.refuse(&spec); err != nil {
		return nil, err
	}
	templates := b.templatesFor(&spec)
	t := templates.take(b, &spec)
	defer t.release()
	box, err := b.create(ctx, spec, t)
	if t != nil && blamesTemplate(err) {
		templates.distrust(b, t, err)
		box, err = b.create(ctx, spec, nil)
	}
	if err != nil {
		return nil, err
	}
	templates.proven.Store(true)
	return box, nil
}

// create builds a box; each step can be undone in reverse order.
func (b *Backend) create(ctx context.Context, spec sandbox.Spec, t *template) (_ *Box, err error) {
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	if err := b.enforcement(&spec, in.Tree).Refusal(Name, &spec); err != nil {
		return nil, err
	}
	box := &Box{Box: &hostbox.Box{Core: hostbox.Core{Backend: Name, Sandbox: spec.ID, Dir: in.BoxDir(spec.ID)}},
		backend: b}
	rand.Read(box.Key[:])
	var made undo.Stack
	made.Add(box.CloseRoot)
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Run())
		}
	}()
	if err := b.Claim(ctx, box.Box, b.resources(in.Tree, &spec), &spec, &made); err != nil {
		return nil, err
	}
	listener, err := listen(box.Dir)
	if err == nil {
		defer listener.Close()
	}
	if err := b.Fail(failListen, err); err != nil {
		return nil, err
	}
	m, hostUID := b.chooseIDs(&spec, box.IDs)
	g, err := b.spawn(&spec, box, m, listener, t)
	if err == nil {
		made.Add(g.destroy)
	}
	if err := b.Fail(failSpawn, err); err != nil {
		return nil, err
	}
	protectGuest(g.process.PID)
	p, err := b.makePlan(&planning{&spec, m, g.process.PID, t, box}) // the guest waits for it
	if err != nil {
		return nil, err
	}
	defer p.close()
	if err := g.plan(ctx, &p.Plan, p.mounts); err != nil {
		return nil, err
	}
	if spec.Network.Linked() {
		end, err := b.link(ctx, g.process)
		if err == nil {
			box.Outer.Put(end)
			made.Add(end.Close)
		}
		if err := b.Fail(failLink, err); err != nil {
			return nil, err
		}
	}
	if b.forkable(&spec) {
		box.walls = p.walls()
	}
	box.Policy, box.Began = box.WithImage(b.effective(&spec, in.Tree, hostUID)), time.Now()
	if spec.Lifetime.Living {
		err = box.Record(spec.Lifetime, nil)
	}
	if err := b.Fail(hostbox.StepRecord, err); err != nil {
		return nil, err
	}
	box.living.Store(spec.Lifetime.Living)
	box.start(g)
	return box, nil
}

func (b *Backend) resources(tree *cgroup.Tree, spec *sandbox.Spec) hostbox.Resources {
	r := hostbox.Resources{Tree: tree, Limits: groupLimits(spec)}
	if b.user.UID == 0 {
		r.IDs, r.Range = filepath.Join(b.options.RunDir, hostid.File), spec.Root.Writable
	}
	return r
}

// groupLimits returns the limits of the control group. It counts the sandbox's own writable places, which are in
// memory, and the guest, some 3 MiB.
func groupLimits(spec *sandbox.Spec) cgroup.Limits {
	return cgroup.Limits{MemoryBytes: spec.Limits.MemoryBytes, CPUMillis: spec.Limits.CPUMillis,
		Pids: spec.Limits.Pids + guestTasks}
}

// protectGuest makes the guest the last process that the kernel kills when memory runs out; the guest does the opposite
// for the processes it starts. Only root may lower a score.
func protectGuest(pid int) {
	if os.Geteuid() != 0 {
		return
	}
	f, err := os.OpenFile("/proc/"+strconv.Itoa(pid)+"/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString("-1000")
}

// refuse returns an error for what this backend does not support.
func (b *Backend) refuse(spec *sandbox.Spec) error {
	if err := enforce.Refuse(Name, spec); err != nil {
		return err
	}
	if err := b.RefuseBuilder(spec); err != nil {
		return err
	}
	switch {
	case !b.kernel.AtLeast(5, 14):
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "native: kernel",
			Msg: "this kernel is " + b.kernel.Release,
			Fix: "use Linux " + leastKernel + " or newer"}
	case spec.Network.Linked():
		return tap.Available()
	}
	return nil
}
