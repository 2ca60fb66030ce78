package backendtest

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Fake is a backend of plain processes. Each box is the test binary, executed again as a guest with a private view of
// the file system, so that its paths are those of a real sandbox. It reports that it does not isolate: run only trusted
// code in it.
//
// The test binary's TestMain must be Main.
type Fake struct {
	dir string // sockets, by id

	mu    sync.Mutex // guards boxes
	boxes map[sandbox.ID]*fakeBox
}

var (
	_ sandbox.Backend = (*Fake)(nil)
	_ sandbox.Box     = (*fakeBox)(nil)
)

// NewFake returns a Fake that closes with all its boxes at the end of the test. Without unprivileged user namespaces
// the test is skipped.
func NewFake(t testing.TB) *Fake {
	t.Helper()
	if !canFake {
		t.Fatal("neither backendtest.Main nor Become is called by this package's TestMain")
	}
	dir, err := os.MkdirTemp("", "fhx") // t.TempDir's names are too long for a socket
	if err != nil {
		t.Fatal(err)
	}
	f := &Fake{dir: dir, boxes: map[sandbox.ID]*fakeBox{}}
	t.Cleanup(func() {
		for _, b := range f.all() {
			t.Errorf("the box %s was left open", b.id)
			_ = b.Close()
		}
		os.RemoveAll(dir)
	})
	if _, err := f.Probe(t.Context()); err != nil {
		t.Skipf("SKIPPED, NOT TESTED: the fake backend needs unprivileged user namespaces: %v", err)
	}
	return f
}

// Name returns "fake".
func (f *Fake) Name() string { return "fake" }

// Features returns all features except checkpoints and networks.
func (f *Fake) Features() []sandbox.Feature {
	list := []sandbox.Feature{{Name: sandbox.FeatureCheckpoint, Detail: "plain processes cannot be saved"},
		{Name: sandbox.FeatureNetwork, Detail: "refused; it would be the host's"}}
	for _, name := range []sandbox.FeatureName{sandbox.FeatureHostRoot, sandbox.FeatureRootDir, sandbox.FeatureHostDirs,
		sandbox.FeatureCommands,
		sandbox.FeatureInodes} {
		list = append(list, sandbox.Feature{Name: name, Has: true})
	}
	return list
}

var probeFake = sync.OnceValue(func() error {
	cmd := exec.Command("/bin/true")
	cmd.SysProcAttr = fakeNamespaces()
	return cmd.Run()
})

// Probe reports whether namespaces can be made here.
func (f *Fake) Probe(context.Context) (sandbox.Posture, error) {
	if err := probeFake(); err != nil {
		return sandbox.Posture{}, &sandbox.Error{Kind: sandbox.Unsupported, Op: "fake: namespaces", Err: err}
	}
	return sandbox.Posture{Backend: f.Name(), Kernel: sandbox.KernelShared, Ready: true,
		Walls: []sandbox.Wall{{Name: "all", State: sandbox.WallMissing, Detail: "plain processes for tests"}}}, nil
}

// unenforced are the limits that a Fake cannot enforce: named ones are refused, as the contract requires.
var unenforced = []sandbox.LimitName{sandbox.LimitMemory, sandbox.LimitCPUs, sandbox.LimitPids}

// Create starts a guest and waits until it is ready.
func (f *Fake) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if err := ctx.Err(); err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "fake: create", Err: err}
	}
	for _, name := range unenforced {
		if spec.IsNamed(name) && !spec.Waives(string(name)) {
			return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "fake: limits",
				Msg: string(name) + " is not enforced"}
		}
	}
	if spec.Network.Mode != sandbox.NetworkNone && spec.Network.Mode != "" {
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "fake: network",
			Msg: "the fake has no network"}
	}
	b := &fakeBox{fake: f, id: spec.ID, spec: spec, socket: filepath.Join(f.dir, string(spec.ID)),
		done: make(chan struct{})}
	rand.Read(b.key[:])
	f.mu.Lock()
	_, taken := f.boxes[spec.ID]
	if !taken {
		f.boxes[spec.ID] = b
	}
	f.mu.Unlock()
	if taken {
		return nil, &sandbox.Error{Kind: sandbox.Exists, Op: "fake: create", Msg: "the id is taken"}
	}
	if err := b.start(ctx); err != nil {
		f.forget(spec.ID)
		return nil, err
	}
	return b, nil
}

// Reap finds nothing: a fake box cannot outlive its process, and this process's boxes have their owner.
func (f *Fake) Reap(context.Context) error { return nil }

// Reattach finds nothing that could be reattached.
func (f *Fake) Reattach(_ context.Context, id sandbox.ID) (sandbox.Box, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.boxes[id] != nil {
		return nil, &sandbox.Error{Kind: sandbox.Exists, Op: "fake: reattach", Msg: "this process owns it"}
	}
	return nil, &sandbox.Error{Kind: sandbox.NotFound, Op: "fake: reattach",
		Msg: "a fake sandbox ends with its process"}
}

// Close ends no box.
func (f *Fake) Close() error { return nil }

func (f *Fake) all() []*fakeBox {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Values(f.boxes))
}

func (f *Fake) forget(id sandbox.ID) {
	f.mu.Lock()
	defer f.mu.Unlock()
	delete(f.boxes, id)
}

// fakeBox is one guest process and its socket.
type fakeBox struct {
	fake   *Fake
	id     sandbox.ID
	spec   sandbox.Spec
	socket string
	key    [guest.KeySize]byte

	cmd      *exec.Cmd
	spawned  time.Time
	closing  bool // guarded by fake.mu
	lifeline *os.File

	done chan struct{} // closed when the guest is reaped; guards the two below
	end  sandbox.End
	wall time.Duration

	close  sync.Once
	closed error
}

// start executes the guest and waits for its ready byte.
func (b *fakeBox) start(ctx context.Context) error {
	listener, err := net.ListenUnix("unix", &net.UnixAddr{Name: b.socket, Net: "unix"})
	if err != nil {
		return fakeError("listen", err)
	}
	defer listener.Close()
	listener.SetUnlinkOnClose(false)
	socket, err := listener.File() // blocking; the guest changes that
	if err != nil {
		return fakeError("listen", err)
	}
	defer socket.Close()
	ready, lifeline, err := fakePipes()
	if err != nil {
		return fakeError("pipes", err)
	}
	defer ready[0].Close()
	plan, err := json.Marshal(fakePlan{ID: b.id, Key: b.key, User: b.spec.User, Workspace: b.spec.Workspace,
		Mounts: b.spec.Mounts,
		Disk:   b.spec.Limits.DiskBytes, Inodes: b.spec.Limits.Inodes, OpenFiles: b.spec.Limits.OpenFiles})
	if err != nil {
		return fakeError("plan", err)
	}
	b.cmd = exec.Command("/proc/self/exe")
	b.cmd.Env = []string{fakeGuest + "=" + string(plan)}
	b.cmd.ExtraFiles = []*os.File{socket, lifeline[0], ready[1]}
	b.cmd.Stderr = os.Stderr
	b.cmd.SysProcAttr = fakeNamespaces()
	b.spawned = time.Now()
	err = b.cmd.Start()
	lifeline[0].Close()
	ready[1].Close()
	b.lifeline = lifeline[1]
	if err != nil {
		b.lifeline.Close()
		os.Remove(b.socket)
		return fakeError("start the guest", err)
	}
	go b.reap() // ends with the guest, for which Close waits
	stop := context.AfterFunc(ctx, func() { ready[0].SetReadDeadline(time.Unix(1, 0)) })
	defer stop()
	if n, err := ready[0].Read(make([]byte, 1)); n != 1 {
		_ = b.Close()
		return fakeError("wait for the guest", err)
	}
	return nil
}

func fakePipes() (ready, lifeline [2]*os.File, err error) {
	if ready[0], ready[1], err = os.Pipe(); err != nil {
		return ready, lifeline, err
	}
	if lifeline[0], lifeline[1], err = os.Pipe(); err != nil {
		ready[0].Close()
		ready[1].Close()
	}
	return ready, lifeline, err
}

// reap waits for the guest and records how it ended.
func (b *fakeBox) reap() {
	_ = b.cmd.Wait() // how it ended is in ProcessState
	b.fake.mu.Lock()
	closing := b.closing
	b.fake.mu.Unlock()
	status := b.cmd.ProcessState.Sys().(syscall.WaitStatus)
	b.end = sandbox.End{Cause: sandbox.EndGuest, ExitCode: status.ExitStatus()}
	if status.Signaled() {
		b.end = sandbox.End{Cause: sandbox.EndDied, ExitCode: -1, Signal: int(status.Signal())}
	}
	if closing {
		b.end.Cause = sandbox.EndClosed
	}
	b.wall = time.Since(b.spawned)
	close(b.done)
}

func (b *fakeBox) ID() sandbox.ID { return b.id }

func (b *fakeBox) Dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-b.done:
		return nil, fakeError("dial", net.ErrClosed)
	default:
	}
	var d net.Dialer
	conn, err := d.DialContext(ctx, "unix", b.socket)
	if err != nil {
		return nil, fakeError("dial", err)
	}
	return conn, nil
}

func (b *fakeBox) GuestKey() [guest.KeySize]byte { return b.key }

func (b *fakeBox) Effective() sandbox.Policy {
	limits := b.spec.Limits
	for _, name := range unenforced {
		limits.Set(name, sandbox.Unlimited)
	}
	return sandbox.Policy{
		Backend: "fake",
		Kernel:  sandbox.KernelShared,
		Limits:  limits,
		Enforcers: map[sandbox.LimitName]string{
			sandbox.LimitDisk: "tmpfs size", sandbox.LimitInodes: "tmpfs nr_inodes",
			sandbox.LimitOpenFiles: "RLIMIT_NOFILE"},
		Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone},
		User:    b.spec.User,
		HostUID: "shared",
	}
}

// Usage returns only the wall time.
func (b *fakeBox) Usage(context.Context) (sandbox.Usage, error) {
	u := sandbox.Usage{Wall: time.Since(b.spawned), CPU: -1, MemoryPeak: -1, MemoryNow: -1, OOMKills: -1, PidsNow: -1,
		PidsRefused: -1, DiskWritten: -1}
	select {
	case <-b.done:
		u.Wall = b.wall
	default:
	}
	return u, nil
}

func (b *fakeBox) Wait(ctx context.Context) (sandbox.End, error) {
	select {
	case <-b.done:
		return b.end, nil
	case <-ctx.Done():
		return sandbox.End{}, context.Cause(ctx)
	}
}

// Close kills the guest, which is pid 1 of its namespace, and with it everything.
func (b *fakeBox) Close() error {
	b.close.Do(func() {
		b.fake.mu.Lock()
		b.closing = true
		b.fake.mu.Unlock()
		if err := b.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
			b.closed = fakeError("kill the guest", err)
		}
		<-b.done
		b.lifeline.Close()
		if err := os.Remove(b.socket); err != nil {
			b.closed = errors.Join(b.closed, fakeError("remove the socket", err))
		}
		b.fake.forget(b.id)
	})
	return b.closed
}

// Signal sends a signal to the guest from outside, as a fault would.
func (f *Fake) Signal(id sandbox.ID, signal syscall.Signal) error {
	f.mu.Lock()
	b := f.boxes[id]
	f.mu.Unlock()
	if b == nil {
		return fmt.Errorf("no box %s", id)
	}
	return b.cmd.Process.Signal(signal)
}

// IDs returns the ids of the open boxes.
func (f *Fake) IDs() []sandbox.ID {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Collect(maps.Keys(f.boxes))
}

// fakeNamespaces lets an ordinary user mount and be pid 1. Only the code's id is mapped.
func fakeNamespaces() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{
		Cloneflags: syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC |
			syscall.CLONE_NEWNET,
		UidMappings: []syscall.SysProcIDMap{{ContainerID: int(sandbox.DefaultUser.UID), HostID: os.Geteuid(), Size: 1}},
		GidMappings: []syscall.SysProcIDMap{{ContainerID: int(sandbox.DefaultUser.GID), HostID: os.Getegid(), Size: 1}},
		AmbientCaps: []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_SYS_CHROOT, unix.CAP_NET_ADMIN},
	}
}

func fakeError(op string, err error) error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "fake: " + op, Err: err}
}
