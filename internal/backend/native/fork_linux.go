package native

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Forker = (*Box)(nil)

// forkTimeout bounds how long a fork may take to confine itself: some 3 ms on an idle machine. Tests set it.
var forkTimeout = 5 * time.Second

// pipeSize is the size of the guest's pipes, in bytes.
const pipeSize = 256 << 10

// forkable reports whether a zygote's fork may run in a sandbox of this spec: the sandbox has the zygote's root, the
// spec requests nothing that the zygote lacks, and the sandbox ends with its one execution. The last rule makes
// entering safe: a fork enters with all rights in the sandbox, so no user code may be waiting there. An ordinary user
// cannot have a zygote: spawning children into another pid namespace requires CAP_SYS_ADMIN.
//
// A sandbox with a network starts a new program, whose environment and certificates the zygote does not have. Layers
// are allowed unless they cover files of the zygote: the fork loads nothing from them before it has confined itself.
// So are volumes, which never cover system directories.
//
// The zygote waits while its child enters, so a slow child delays all others. This excludes sandboxes with less than a
// CPU, whose start may have used up their quota, and those with too little memory.
func (b *Backend) forkable(spec *sandbox.Spec) bool {
	l := &spec.Limits
	if 0 < l.CPUMillis && l.CPUMillis < 1000 || 0 < l.MemoryBytes && l.MemoryBytes < 32<<20 ||
		0 < l.Pids && l.Pids < 8 {
		return false
	}
	return b.user.UID == 0 && !spec.Lifetime.Living && !spec.Network.Linked() && spec.Root == (sandbox.Root{}) &&
		spec.Commands == nil &&
		onlyVolumes(spec) && spec.Workspace == "" &&
		!slices.ContainsFunc(spec.Layers, func(l sandbox.Layer) bool {
			return !strings.HasPrefix(l.At, "/opt/fumehood/")
		})
}

// Fork puts a fork of a zygote into the sandbox and returns once it is confined. The fork reads its program next.
func (box *Box) Fork(ctx context.Context, f sandbox.Fork) (_ *sandbox.Forked, err error) {
	box.entry.Lock()
	defer box.entry.Unlock()
	if box.walls == nil {
		return nil, sandbox.ErrNoEntry
	}
	if box.entry.used || box.IsClosing() {
		return nil, sandbox.ErrNoZygote
	}
	z, err := box.backend.zygotes.take(box.backend, &f)
	if err != nil {
		return nil, err
	}
	box.entry.used = true // from now on, a program may run there
	o := &forking{}
	defer func() {
		if err != nil {
			o.close()
			err = at("fork interpreter", err)
		}
		if o.ordered && ctx.Err() == nil {
			box.backend.zygotes.record(box.backend, z, err)
		}
	}()
	if err := o.order(box, z); err != nil {
		return nil, err
	}
	if err := o.confine(ctx, box.backend.entries.get(box.walls, f.Dir)); err != nil {
		return nil, err
	}
	return &sandbox.Forked{PID: o.pid, Channel: o.end, Stdout: o.stdout, Stderr: o.stderr, Close: o.close}, nil
}

// confine sends the process the calls that confine it, and reads its id once it is confined. Unless the zygote reports
// that no process entered, one may have entered, or enter later.
func (o *forking) confine(ctx context.Context, calls []byte) (err error) {
	deadline := time.Now().Add(forkTimeout)
	if d, ok := ctx.Deadline(); ok && d.Before(deadline) {
		deadline = d
	}
	if err := o.channel.SetDeadline(deadline); err != nil {
		return errors.Join(sandbox.ErrEntered, err)
	}
	defer context.AfterFunc(ctx, func() { _ = o.channel.SetDeadline(time.Unix(1, 0)) })()
	_, failed := o.channel.Write(calls) // ignored if the zygote refused
	o.pid, err = o.readPID()
	if errors.Is(err, errRefused) {
		return err
	}
	if err != nil || failed != nil {
		return errors.Join(sandbox.ErrEntered, failed, err)
	}
	return nil
}

// errRefused is the zygote's report that nothing has entered the sandbox.
var errRefused = errors.New("the zygote refused")

// entries caches the last fork's encoded calls: encoding takes 0.2 ms, and nearly all sandboxes have the same calls.
type entries struct {
	mu    sync.Mutex // guards both
	walls []byte     // the encoded plan that the calls implement
	calls []byte
}

func (e *entries) get(walls *confine.Plan, dir string) []byte {
	key := append(walls.Append(nil), dir...)
	e.mu.Lock()
	defer e.mu.Unlock()
	if !bytes.Equal(key, e.walls) {
		e.walls, e.calls = key, confine.AppendCalls(nil, walls.Entry(dir))
	}
	return e.calls
}

// forking is a process that is entering a sandbox.
type forking struct {
	pid            int           // in the sandbox, once it is confined
	end            *os.File      // our end of its channel
	channel        *net.UnixConn // the same
	stdout, stderr *os.File      // read ends
	ordered        bool          // the zygote has the order; an earlier failure is not its fault
}

// order makes the process's channel and pipes and asks the zygote for the process.
func (o *forking) order(box *Box, z *zygote) error {
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer unix.Close(pair[1])
	o.end = os.NewFile(uintptr(pair[0]), "channel")
	conn, err := net.FileConn(o.end)
	if err != nil {
		return err
	}
	o.channel = conn.(*net.UnixConn)
	fds := []int{box.Process.FD, pair[1]}
	for _, end := range []**os.File{&o.stdout, &o.stderr} {
		var pipe [2]int // blocking, for the program; the guest changes its own end
		if err := unix.Pipe2(pipe[:], unix.O_CLOEXEC); err != nil {
			return err
		}
		defer unix.Close(pipe[1])
		_, _ = unix.FcntlInt(uintptr(pipe[0]), unix.F_SETPIPE_SZ, pipeSize) // as the guest does; may be refused
		*end = os.NewFile(uintptr(pipe[0]), "pipe")
		fds = append(fds, pipe[1])
	}
	door, err := box.Group.Door()
	if err != nil {
		return err
	}
	defer door.Close()
	if door.V2 > 0 {
		fds = append(fds, door.V2)
	}
	o.ordered = true
	return z.order(door.V2 > 0, len(door.Tasks), append(fds, door.Tasks...))
}

// Reports instead of a process id. The cause follows.
const (
	nobodyEntered = 0
	somebodyMay   = math.MaxUint32
)

// readPID reads the process's id, its report that it is confined, or the zygote's report of a failure.
func (o *forking) readPID() (int, error) {
	var number [4]byte
	if _, err := io.ReadFull(o.channel, number[:]); err != nil {
		return 0, err
	}
	pid := binary.LittleEndian.Uint32(number[:])
	if pid != nobodyEntered && pid != somebodyMay {
		return int(pid), nil
	}
	if _, err := io.ReadFull(o.channel, number[:]); err != nil {
		return 0, err
	}
	const most = 200
	text := make([]byte, min(binary.LittleEndian.Uint32(number[:]), most))
	if _, err := io.ReadFull(o.channel, text); err != nil {
		return 0, err
	}
	if pid == nobodyEntered {
		return 0, fmt.Errorf("%w: %q", errRefused, text)
	}
	return 0, fmt.Errorf("unexpected answer: %q", text)
}

// close closes our descriptors. A fork that has no other end of its channel ends.
func (o *forking) close() {
	if o.channel != nil {
		o.channel.Close()
	}
	for _, f := range []*os.File{o.end, o.stdout, o.stderr} {
		if f != nil {
			f.Close()
		}
	}
}
