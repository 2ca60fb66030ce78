package gvisor

import (
	"context"
	"crypto/rand"
	"errors"
	"net"
	"os"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/internal/fork"
	"github.com/glovebox-dev/glovebox/internal/guest/client"
	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
	"github.com/glovebox-dev/glovebox/internal/undo"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// What the folder of a box holds, beside its bundle and its record.
const (
	socketFolder = "socket" // the guest's socket lies in it
	stateFolder  = "state"  // runsc's
	wordsFile    = "stderr" // what runsc and the guest said, where they failed
)

// Create builds a box, in the order in which it can be taken down again.
func (b *Backend) Create(ctx context.Context, spec sandbox.Spec) (_ sandbox.Box, err error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if err := refuse(&spec); err != nil {
		return nil, err
	}
	in, err := b.instance()
	if err != nil {
		return nil, err
	}
	if err := unenforced(&spec, in.Tree); err != nil {
		return nil, err
	}
	box := &Box{backend: b, id: spec.ID, dir: in.BoxDir(spec.ID), ended: make(chan struct{})}
	rand.Read(box.key[:])
	var made undo.Stack
	defer func() {
		if err != nil {
			err = errors.Join(err, made.Run())
		}
	}()
	if err := b.claim(in, box, &spec, &made); err != nil {
		return nil, err
	}
	r, err := b.root(in, &spec, box.dir)
	if err != nil {
		return nil, at("build root", err)
	}
	s, err := box.set(&spec, r)
	if err != nil {
		return nil, at("set stage", err)
	}
	defer s.close()
	if err := b.fail(failBundle, box.bundle(&spec, s.mounts)); err != nil {
		return nil, err
	}
	if box.process, err = b.startRunsc(box, s); err == nil {
		made.Add(box.destroy)
	}
	if err := b.fail(failStart, err); err != nil {
		return nil, err
	}
	if err := b.fail(failGuest, box.awaitGuest(ctx, spec.Lifetime.Living)); err != nil {
		return nil, err
	}
	box.effective = b.effective(&spec, in.Tree)
	box.began = time.Now()
	if spec.Lifetime.Living {
		err = instance.Box{Key: box.key[:], Effective: box.effective, CgroupDirs: in.Tree.Dirs(), Began: box.began}.Write(box.dir)
	}
	if err := b.fail(failRecord, err); err != nil {
		return nil, err
	}
	go box.watch()
	return box, nil
}

// claim takes what the host holds for a box before its first process: its folder, which is the record of all that follows, as everything
// else is named after it; its host ids; its control group.
func (b *Backend) claim(in *instance.Instance, box *Box, spec *sandbox.Spec, made *undo.Stack) error {
	err := os.Mkdir(box.dir, 0o700)
	if err == nil {
		made.Add(func() error { return os.RemoveAll(box.dir) })
	}
	if err := b.fail(failDir, err); err != nil {
		return err
	}
	box.ids, err = hostid.Take(b.options.HostIDs)
	if err == nil {
		made.Add(func() error { box.ids.Release(); return nil })
		socket := filepath.Join(box.dir, socketFolder)
		err = errors.Join(os.Mkdir(socket, 0o700), os.Chown(socket, int(box.ids.Guest), int(box.ids.Guest)))
	}
	if err := b.fail(failIDs, err); err != nil {
		return err
	}
	box.group, err = in.Tree.Create(string(spec.ID), groupLimits(spec))
	if err == nil {
		made.Add(func() error { return box.group.Remove(context.Background()) })
	}
	return b.fail(failCgroup, err)
}

// Bounds of what a sandbox is beside its code. The kernel in user space has some 25 MiB of its own, the process that serves it files 15
// and the one that started both as much, shared pages of their program among it. Its threads and the stubs in which the code runs
// count as processes on the host: RLIMIT_NPROC inside bounds those of the code, the group's bound is a backstop.
const (
	ownMemory   = 64 << 20
	ownTasks    = 256
	tasksPerPID = 4
)

func groupLimits(spec *sandbox.Spec) cgroup.Limits {
	return cgroup.Limits{MemoryBytes: spec.Limits.MemoryBytes + spec.Limits.DiskBytes + ownMemory, CPUMillis: spec.Limits.CPUMillis,
		Pids: ownTasks + tasksPerPID*spec.Limits.Pids}
}

// runscName is argv[0] of every runsc of ours.
const runscName = "glovebox-runsc"

// startRunsc starts the box's runsc, which stays as its parent: when it ends, all of the box has.
func (b *Backend) startRunsc(box *Box, s *stage) (*pidfd.Process, error) {
	program, err := b.runsc()
	if err != nil {
		return nil, err
	}
	words, err := os.OpenFile(filepath.Join(box.dir, wordsFile), os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
	if err != nil {
		return nil, err
	}
	defer words.Close()
	door, err := box.group.Door()
	if err != nil {
		return nil, err
	}
	defer door.Close()
	null := int(b.null.Fd())
	order := &fork.Order{
		Program: 3,
		Argv: []string{runscName, "--root=" + filepath.Join(onStage(stageBox), stateFolder), "--platform=systrap", "--network=none", "--host-uds=create",
			"--ignore-cgroups", "--overlay2=none", "run", "--bundle=" + onStage(stageBox), string(box.id)},
		Env:    []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin"},
		Dir:    "/",
		Files:  []int{null, null, int(words.Fd()), int(program.Fd()), box.ids.FD()},
		Cgroup: door.V2,
		Tasks:  door.Tasks,
		PIDFD:  true,
	}
	return s.start(order)
}

// guestPoll is how often a guest that is about to come is looked for.
const guestPoll = time.Millisecond

// awaitGuest waits until the guest answers, and takes its lifeline where the box is not to outlive this process.
func (box *Box) awaitGuest(ctx context.Context, living bool) error {
	for {
		conn, err := box.dial(ctx)
		if err == nil && !living {
			if err = client.Lifeline(ctx, conn, box.key); err == nil {
				box.lifeline = conn
			}
		}
		if err == nil {
			if living {
				return conn.Close()
			}
			return nil
		}
		if conn != nil {
			conn.Close()
		}
		brief, cancel := context.WithTimeout(ctx, guestPoll)
		ended := pidfd.Await(brief, box.process.FD) == nil
		cancel()
		if ended {
			return &sandbox.Error{Kind: sandbox.Unavailable, Op: "gvisor: " + failGuest, Msg: "runsc ended: " + box.words()}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
}

func (box *Box) dial(ctx context.Context) (net.Conn, error) {
	folder, err := os.Open(filepath.Join(box.dir, socketFolder)) // a path may be longer than the 107 bytes of a unix address
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	var d net.Dialer
	return d.DialContext(ctx, "unix", filepath.Join("/proc/self/fd", itoa(int(folder.Fd())), socketFile))
}

// words is the end of what runsc and the guest said.
func (box *Box) words() string {
	const most = 2000
	text, err := os.ReadFile(filepath.Join(box.dir, wordsFile))
	if err != nil {
		return err.Error()
	}
	return string(text[max(0, len(text)-most):])
}

// refuse says no to what this backend cannot do.
func refuse(spec *sandbox.Spec) error {
	no := func(what, msg string) error {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: what, Msg: "the gvisor backend " + msg}
	}
	switch {
	case len(spec.Devices) > 0:
		return no("devices", "hands no devices in")
	case spec.Network.Mode != "" && spec.Network.Mode != sandbox.NetworkNone:
		return no("network", "has no way out to the network yet")
	case spec.User.UID == 0:
		return no("user", "does not run code as uid 0")
	case spec.Commands != nil:
		return no("commands", "cannot bound which programs are executed")
	case unix.Geteuid() != 0:
		return no("user", "needs root")
	}
	return nil
}
