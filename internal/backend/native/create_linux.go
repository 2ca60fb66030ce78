package native

import (
	"context"
	"crypto/rand"
	"errors"
	"os"
	"path/filepath"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/internal/host/undo"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Create creates one sandbox.
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
	box := &Box{Box: &hostbox.Box{Backend: Name, Sandbox: spec.ID, Dir: in.BoxDir(spec.ID)}, backend: b}
	rand.Read(box.Key[:])
	var made undo.Stack
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Run())
		}
	}()
	if err := b.claim(in, box, &spec, &made); err != nil {
		return nil, err
	}
	listener, err := listen(box.Dir)
	if err == nil {
		defer listener.Close()
	}
	if err := b.fail(failListen, err); err != nil {
		return nil, at(failListen, err)
	}
	m, hostUID := b.chooseIDs(&spec, box.IDs)
	p, err := b.makePlan(&spec, m, box.Key, t)
	if err != nil {
		return nil, err
	}
	defer p.close()
	g, err := b.spawn(&spec, box, m, listener, t)
	if err == nil {
		made.Add(g.destroy)
	}
	if err := b.fail(failSpawn, err); err != nil {
		return nil, at(failSpawn, err)
	}
	protectGuest(g.process.PID)
	if err := g.plan(ctx, &p.Plan, p.mounts); err != nil {
		return nil, err
	}
	if spec.Network.Linked() {
		end, err := b.link(ctx, g.process)
		if err == nil {
			box.outer.Put(end)
			made.Add(end.Close)
		}
		if err := b.fail(failLink, err); err != nil {
			return nil, at(failLink, err)
		}
	}
	if b.forkable(&spec) {
		box.walls = p.walls()
	}
	box.Policy, box.Began = b.effective(&spec, in.Tree, hostUID), time.Now()
	if spec.Lifetime.Living {
		err = box.Record(spec.Lifetime, nil)
	}
	if err := b.fail(failRecord, err); err != nil {
		return nil, at(failRecord, err)
	}
	box.living.Store(spec.Lifetime.Living)
	box.start(g)
	return box, nil
}

// claim takes the box's resources on the host: its folder, which is the record from which every other name derives; its host
// ids; its control group.
func (b *Backend) claim(in *instance.Instance, box *Box, spec *sandbox.Spec, made *undo.Stack) error {
	if err := b.fail(failDir, os.Mkdir(box.Dir, 0o700)); err != nil {
		_ = os.Remove(box.Dir)
		return at(failDir, err)
	}
	made.Add(func() error { return os.RemoveAll(box.Dir) })
	var err error
	if b.user.UID == 0 {
		if box.IDs, err = hostid.Take(filepath.Join(b.options.RunDir, hostid.File)); err == nil {
			made.Add(func() error { box.IDs.Release(); return nil })
		}
		if err := b.fail(failSlot, err); err != nil {
			return at(failSlot, err)
		}
	}
	if box.Group, err = in.Tree.Create(string(spec.ID), groupLimits(spec)); err == nil {
		made.Add(func() error { return box.Group.Remove(context.Background()) })
	}
	if err := b.fail(failCgroup, err); err != nil {
		return at(failCgroup, err)
	}
	return nil
}

// groupLimits are the limits of the control group. What is written to the sandbox's own places lies in memory and counts there, as does
// the guest, some 3 MiB.
func groupLimits(spec *sandbox.Spec) cgroup.Limits {
	return cgroup.Limits{MemoryBytes: spec.Limits.MemoryBytes, CPUMillis: spec.Limits.CPUMillis,
		Pids: spec.Limits.Pids + guestTasks}
}

// protectGuest makes the guest the last process that the kernel kills for want of memory; the guest does the opposite for
// what it starts. Only root may lower a score.
func protectGuest(pid int) {
	if os.Geteuid() != 0 {
		return
	}
	f, err := os.OpenFile("/proc/"+itoa(pid)+"/oom_score_adj", os.O_WRONLY, 0)
	if err != nil {
		return
	}
	defer f.Close()
	_, _ = f.WriteString("-1000")
}

// refuse returns an error for what this backend does not support.
func (b *Backend) refuse(spec *sandbox.Spec) error {
	switch {
	case len(spec.Devices) > 0:
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "devices", Msg: "the native backend passes no devices in"}
	case spec.User.UID == 0:
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "user", Msg: "code does not run as uid 0", Fix: "leave the user at 1000"}
	case !b.kernel.atLeast(5, 14):
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "native: kernel", Msg: "this kernel is " + b.kernel.release,
			Fix: "use Linux " + leastKernel + " or newer"}
	case spec.Network.Linked():
		return tap.Available()
	}
	return nil
}
