package native

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// namespaces are those of every sandbox, without the time namespace, which affects only clocks that nothing inside can
// set.
const namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWNS | unix.CLONE_NEWPID | unix.CLONE_NEWNET | unix.CLONE_NEWIPC |
	unix.CLONE_NEWUTS | unix.CLONE_NEWCGROUP

// setupCaps are the set-up stage's capabilities in its own user namespace. They are ambient because its id is not
// mapped yet when it is executed, so it is not root. It drops them before any user code runs.
var setupCaps = []uintptr{unix.CAP_CHOWN, unix.CAP_DAC_OVERRIDE, unix.CAP_FOWNER, unix.CAP_KILL, unix.CAP_SETGID,
	unix.CAP_SETUID,
	unix.CAP_SETPCAP, unix.CAP_NET_ADMIN, unix.CAP_SYS_ADMIN, unix.CAP_SYS_RESOURCE}

// guestEnv is a guest's whole environment; the code never sees it. A guest only moves bytes, and the Go runtime's
// preparation for one thread per CPU would cost time and memory.
var guestEnv = []string{"GOMAXPROCS=1"}

// setupTimeout bounds the whole set-up stage, which takes about 2 ms.
const setupTimeout = 20 * time.Second

type spawned struct {
	process *pidfd.Process
	setup   *net.UnixConn // later the lifeline
}

// spawn starts the guest in new namespaces, inside its control group, with its ids mapped. The guest then waits for the
// plan.
func (b *Backend) spawn(spec *sandbox.Spec, box *Box, m ids, listener *os.File, t *template) (*spawned, error) {
	door, err := box.Group.Door()
	if err == nil {
		defer door.Close()
	}
	if err := b.Fail(failJoin, err); err != nil {
		return nil, err
	}
	slotFD := int(b.null.Fd())
	if box.IDs != nil {
		slotFD = box.IDs.FD()
	}
	null, stderr := int(b.null.Fd()), int(b.guestErr.Fd())
	if spec.Lifetime.Living {
		stderr = null // a reader of this process's output must not wait for the sandbox
	}
	g, err := b.start(&fork.Order{
		Argv: []string{guestName, string(spec.ID)},
		Files: []int{null, null, stderr, null, int(listener.Fd()), slotFD, null,
			int(box.ImageLock(b.null).Fd())},
		Namespaces: namespaces,
		Mounts:     t.mounts(),
		As:         b.spawnAs(spec, m),
		Cgroup:     door.V2,
		Tasks:      door.Tasks,
		Ambient:    setupCaps,
	})
	if err != nil {
		return nil, err
	}
	if err := b.Fail(failMap, m.Write(g.process.PID)); err != nil { // the guest waits for its plan meanwhile
		return nil, errors.Join(err, g.destroy())
	}
	return g, nil
}

// spawnAs returns the guest's host identity from its start, if possible: changing ids before the program runs avoids
// changing those of each thread. It is impossible if only root can read the files of the sandbox's root, or if the
// caller is not root.
func (b *Backend) spawnAs(spec *sandbox.Spec, m ids) *fork.Identity {
	if b.user.UID != 0 || spec.Root.Dir != "" {
		return nil
	}
	for _, l := range m.Lines {
		if l.Inside == m.guest.UID {
			return &fork.Identity{UID: l.Host, GID: l.Host}
		}
	}
	return nil
}

// startHelper starts the guest program for a purpose other than a sandbox. The program then waits for its plan.
func (b *Backend) startHelper(name string, output *os.File, namespaces uintptr) (*spawned, error) {
	null := int(b.null.Fd())
	return b.start(&fork.Order{Argv: []string{guestName, name}, Files: []int{null, int(output.Fd()), int(output.Fd()),
		null, null, null, null}, Namespaces: namespaces})
}

// start starts the guest program. It adds the program and the socket for the plan to the order.
func (b *Backend) start(order *fork.Order) (*spawned, error) {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, at("socketpair", err)
	}
	ours, theirs := os.NewFile(uintptr(pair[0]), "setup"), os.NewFile(uintptr(pair[1]), "setup")
	defer ours.Close()
	defer theirs.Close()
	conn, err := net.FileConn(ours)
	if err != nil {
		return nil, at("setup socket", err)
	}
	order.Files[confine.SetupFD], order.Files[confine.ProgramFD] = int(theirs.Fd()), int(b.program.Fd())
	order.Program, order.Env, order.Dir, order.PIDFD = confine.ProgramFD, guestEnv, "/", true
	pid, fd, err := order.Start()
	if err != nil {
		conn.Close()
		return nil, at(failSpawn, explainStart(err))
	}
	return &spawned{process: &pidfd.Process{PID: pid, FD: fd, Child: true}, setup: conn.(*net.UnixConn)}, nil
}

// destroy ends the guest and waits for it.
func (g *spawned) destroy() error {
	g.setup.Close()
	g.process.Kill()
	g.process.Wait()
	g.process.Close()
	return nil
}

// plan sends the plan and waits until the set-up is done.
func (g *spawned) plan(ctx context.Context, p *confine.Plan, mounts []int) (err error) {
	deadline := time.Now().Add(setupTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := g.setup.SetDeadline(deadline); err != nil {
		return err
	}
	stop := context.AfterFunc(ctx, func() { _ = g.setup.SetDeadline(time.Unix(1, 0)) })
	defer stop()
	defer func() {
		if err != nil && ctx.Err() != nil {
			err = ctx.Err()
		}
	}()
	body := p.Append(make([]byte, 4, 16<<10))
	binary.LittleEndian.PutUint32(body, uint32(len(body)-4))
	var rights []byte
	if len(mounts) > 0 {
		rights = unix.UnixRights(mounts...)
	}
	if _, _, err := g.setup.WriteMsgUnix(body[:4], rights, nil); err != nil {
		return at("send plan", err)
	}
	if _, err := g.setup.Write(body[4:]); err != nil {
		return at("send plan", err)
	}
	f, err := readOutcome(g.setup)
	if err != nil {
		return at("await set-up", fmt.Errorf("the guest ended during its set-up: %w", err))
	}
	if f != nil {
		return explainSetup(f)
	}
	return g.setup.SetDeadline(time.Time{})
}

// maxOutcome bounds the set-up stage's report of a failure, in bytes.
const maxOutcome = 64 << 10

func readOutcome(r io.Reader) (*confine.Failure, error) {
	var length [4]byte
	if _, err := io.ReadFull(r, length[:]); err != nil {
		return nil, err
	}
	size := binary.LittleEndian.Uint32(length[:])
	if size == 0 {
		return nil, nil
	}
	if size > maxOutcome {
		return nil, errors.New("its answer is too long")
	}
	body := make([]byte, size)
	if _, err := io.ReadFull(r, body); err != nil {
		return nil, err
	}
	f := &confine.Failure{}
	return f, f.Parse(body)
}

// ids are the users inside a sandbox and their host ids.
type ids struct {
	guest, code sandbox.User // inside
	hostid.Map
}

// chooseIDs maps the ids of one sandbox: unique ids as root; otherwise subordinate ids, if any, unless a host directory
// is writable, which needs the caller's own id.
func (b *Backend) chooseIDs(spec *sandbox.Spec, s *hostid.Pair) (ids, string) {
	code := spec.User
	guest := sandbox.User{UID: 0, GID: 0}
	switch {
	case spec.Root.Writable:
		guest = sandbox.User{UID: hostid.RangeIDs, GID: hostid.RangeIDs}
		return ids{guest, code, hostid.Map{Lines: []hostid.Line{{Inside: 0, Host: s.Code, Count: hostid.RangeIDs},
			{Inside: guest.UID, Host: s.Guest}}}}, hostid.Unique
	case s != nil:
		return ids{guest, code, hostid.Map{Lines: []hostid.Line{{Inside: 0, Host: s.Guest},
			{Inside: code.UID, Host: s.Code}}}}, hostid.Unique
	case b.user.Subordinate != 0 && !spec.HostWritable():
		first := b.user.Subordinate
		return ids{guest, code, hostid.Map{BySetuid: true, Lines: []hostid.Line{{Inside: 0, Host: first},
			{Inside: code.UID, Host: first + 1}}}}, hostid.Subordinate
	}
	return ids{code, code, hostid.Map{Lines: []hostid.Line{{Inside: code.UID, Host: b.user.UID}}}}, hostid.Shared
}
