package gvisor

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/enforce"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/internal/host/undo"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Files in a box's folder, beside its bundle and its record.
const (
	socketFolder = "socket" // contains the guest's socket
	stateFolder  = "state"  // runsc's
	stderrFile   = "stderr" // error output of runsc and the guest
)

func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	return b.build(ctx, spec, nil)
}

// build builds a box, new or from a checkpoint; each step can be undone in reverse order.
func (b *Backend) build(ctx context.Context, spec sandbox.Spec, from *checkpoint) (_ sandbox.Box, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := b.refuse(&spec); err != nil {
		return nil, err
	}
	if from != nil && spec.Network.Linked() {
		return nil, notSaved("restore")
	}
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	if err := enforcement(&spec, in.Tree).Refusal(Name, &spec); err != nil {
		return nil, err
	}
	box := &Box{Box: &hostbox.Box{Core: hostbox.Core{Backend: Name, Sandbox: spec.ID, Dir: in.BoxDir(spec.ID)}},
		backend: b, spec: spec}
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
	if err := b.Fail(failSocket, box.makeSocketFolder()); err != nil {
		return nil, err
	}
	s, err := box.stage(in, &spec, from)
	if err != nil {
		return nil, err
	}
	defer s.close()
	if err := b.Fail(failBundle, box.bundle(&spec, s, in.Tree.Enforcer(cgroup.Memory) != "")); err != nil {
		return nil, err
	}
	made.Add(func() error { return box.Outer.Shut()() })
	if box.Process, err = b.startRunsc(box, s, from); err == nil {
		made.Add(box.destroy)
	}
	if err := b.Fail(failStart, err); err != nil {
		return nil, err
	}
	if err := b.Fail(failGuest, box.greetGuest(ctx, from)); err != nil {
		return nil, err
	}
	box.Policy = box.WithImage(b.effective(&spec, in.Tree))
	box.Began = time.Now()
	if spec.Lifetime.Living {
		err = box.Record(spec.Lifetime, &spec)
	}
	if err := b.Fail(hostbox.StepRecord, err); err != nil {
		return nil, err
	}
	box.watch()
	return box, nil
}

// stage makes the box's root and its staging area.
func (box *Box) stage(in *instance.Instance, spec *sandbox.Spec, from *checkpoint) (*staging, error) {
	if spec.Root.Writable {
		s, err := box.setBuilder(in, spec)
		return s, at("set staging", err)
	}
	r, err := box.backend.root(in, spec, box.Dir)
	if err != nil {
		return nil, at("build root", err)
	}
	if from != nil {
		if err := r.unchanged(from.held, spec); err != nil {
			return nil, err
		}
	}
	s, err := box.set(spec, r)
	return s, at("set staging", err)
}

func (b *Backend) resources(tree *cgroup.Tree, spec *sandbox.Spec) hostbox.Resources {
	r := hostbox.Resources{Tree: tree, Limits: groupLimits(spec)}
	if b.caller.UID == 0 {
		r.IDs, r.Range = b.options.HostIDs, spec.Root.Writable
	}
	return r
}

// makeSocketFolder makes the folder in which the guest makes its socket.
func (box *Box) makeSocketFolder() error {
	folder := filepath.Join(box.Dir, socketFolder)
	err := os.Mkdir(folder, 0o700)
	if err == nil && box.IDs != nil {
		err = os.Chown(folder, int(box.IDs.Guest), int(box.IDs.Guest))
	}
	return err
}

// A sandbox's resources in addition to its code's. The user-space kernel, its file server and the process that started
// both hold 21 to 26 MiB that cannot be reclaimed, measured with a sleeping Python. The host cannot distinguish their
// pages from the code's, so they have a share of their own. The rest is for what the code can fill before the guest
// kills processes at the limit (confine.Container.Memory), 5 to 60 MiB: at this limit the host ends the sandbox. The
// kernel's threads and the processes in which the code runs count on the host: RLIMIT_NPROC inside limits those of the
// code, and the group's limit is a backstop.
const (
	ownMemory   = 96 << 20
	ownTasks    = 256
	tasksPerPID = 4
)

func groupLimits(spec *sandbox.Spec) cgroup.Limits {
	return cgroup.Limits{MemoryBytes: spec.Limits.MemoryBytes + ownMemory, CPUMillis: spec.Limits.CPUMillis,
		Pids: ownTasks + tasksPerPID*spec.Limits.Pids}
}

// guestPoll is how often to look for a starting guest.
const guestPoll = time.Millisecond

// bootTimeout bounds a sandbox's start, which takes 0.2 s, and some 20 s on a busy emulated processor.
const bootTimeout = 2 * time.Minute

// greetGuest waits until the guest answers. It gives a restored guest its new key and name, a one-shot guest its
// lifeline.
func (box *Box) greetGuest(ctx context.Context, from *checkpoint) error {
	ctx, cancel := context.WithTimeoutCause(ctx, bootTimeout, &sandbox.Error{Kind: sandbox.Unavailable,
		Op:  "gvisor: " + failGuest,
		Msg: "no answer within " + bootTimeout.String(), Fix: "try again; this host may be too busy"})
	defer cancel()
	if from != nil {
		if err := box.awaitGuest(ctx, func(conn net.Conn) error { return box.rename(ctx, conn, from) }); err != nil {
			return err
		}
	}
	return box.awaitGuest(ctx, func(conn net.Conn) error {
		if box.spec.Lifetime.Living {
			return conn.Close()
		}
		err := client.Lifeline(ctx, conn, box.Key)
		if err == nil {
			box.Lifeline = conn
		}
		return err
	})
}

// awaitGuest dials the guest until greet(conn) returns nil.
func (box *Box) awaitGuest(ctx context.Context, greet func(net.Conn) error) error {
	for {
		conn, err := box.dial(ctx)
		if err == nil {
			if err = greet(conn); err == nil {
				return nil
			}
			conn.Close()
		}
		brief, cancel := context.WithTimeout(ctx, guestPoll)
		ended := pidfd.Await(brief, box.Process.FD) == nil
		cancel()
		if ended {
			return &sandbox.Error{Kind: sandbox.Unavailable, Op: "gvisor: " + failGuest,
				Msg: "runsc ended: " + lastOutput(filepath.Join(box.Dir, stderrFile))}
		}
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
	}
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
	case b.caller.UID != 0 && spec.HostWritable():
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "mount",
			Msg: "the gvisor backend needs root for writable host directories",
			Fix: "run as root, or send files in and out", Fixes: []sandbox.Hint{sandbox.ChooseBackend("native")}}
	case spec.Network.Linked():
		return tap.Available()
	}
	return nil
}
