package native

import (
	"context"
	"errors"
	"net"
	"os"
	"sync"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/sandbox"
)

var _ sandbox.Box = (*Box)(nil)

// Box is one native sandbox.
type Box struct {
	id        sandbox.ID
	key       [32]byte
	dir       string
	slot      *slot
	group     *cgroup.Group
	guest     *born
	effective sandbox.Policy
	began     time.Time

	ended chan struct{} // closed once the guest is reaped, and with it every process of the sandbox is gone

	mu      sync.Mutex // guards the fields below
	closing bool
	end     sandbox.End
	last    *sandbox.Usage // the figures at the end

	closeOnce sync.Once
	closeErr  error
}

// start takes the guest over and watches it until it ends.
func (box *Box) start(g *born, effective sandbox.Policy) {
	box.guest, box.effective, box.began = g, effective, time.Now()
	go func() {
		state, err := g.process.Wait() // the end of a pid namespace's init is that of all its processes
		box.mu.Lock()
		box.end = endOf(state, err, box.closing)
		usage := box.usage()
		box.last = &usage
		box.mu.Unlock()
		close(box.ended)
	}()
}

func endOf(state *os.ProcessState, err error, closing bool) sandbox.End {
	e := sandbox.End{Cause: sandbox.EndDied, ExitCode: -1}
	if err != nil {
		return e
	}
	ws := state.Sys().(interface {
		Exited() bool
		ExitStatus() int
		Signaled() bool
	})
	if ws.Exited() {
		e.Cause, e.ExitCode = sandbox.EndGuest, ws.ExitStatus()
	} else if ws.Signaled() {
		e.Signal = int(unix.SIGKILL)
	}
	if closing {
		e.Cause = sandbox.EndClosed
	}
	return e
}

// ID is the sandbox's name.
func (box *Box) ID() sandbox.ID { return box.id }

// GuestKey is what the guest demands on a connection.
func (box *Box) GuestKey() [32]byte { return box.key }

// Effective is what is enforced.
func (box *Box) Effective() sandbox.Policy { return box.effective }

// Dial connects to the guest.
func (box *Box) Dial(ctx context.Context) (net.Conn, error) {
	select {
	case <-box.ended:
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "native: dial guest", Msg: "the sandbox has ended"}
	default:
	}
	conn, err := dial(ctx, box.dir)
	if err != nil {
		return nil, at("dial guest", err)
	}
	return conn, nil
}

// Usage is what the control groups have counted, and the last of it after the end.
func (box *Box) Usage(context.Context) (sandbox.Usage, error) {
	box.mu.Lock()
	defer box.mu.Unlock()
	if box.last != nil {
		return *box.last, nil
	}
	return box.usage(), nil
}

func (box *Box) usage() sandbox.Usage {
	u := box.group.Usage()
	return sandbox.Usage{Wall: time.Since(box.began), CPU: u.CPU, MemoryPeak: u.MemoryPeak, MemoryNow: u.MemoryNow,
		OOMKills: u.OOMKills, PidsNow: u.Pids, DiskWritten: -1}
}

// Wait returns once every process of the sandbox is gone.
func (box *Box) Wait(ctx context.Context) (sandbox.End, error) {
	select {
	case <-box.ended:
		box.mu.Lock()
		defer box.mu.Unlock()
		return box.end, nil
	case <-ctx.Done():
		return sandbox.End{}, ctx.Err()
	}
}

// killPatience bounds how long Close waits for killed processes. One that does not die in this time hangs in the kernel; its host
// ids and its folder are then kept from use, until the next start finds it dead.
const killPatience = 30 * time.Second

// Close ends the sandbox and frees what it held.
func (box *Box) Close() error {
	box.closeOnce.Do(func() { box.closeErr = box.close() })
	return box.closeErr
}

func (box *Box) close() error {
	box.mu.Lock()
	box.closing = true
	box.mu.Unlock()
	_ = box.guest.process.Kill()
	select {
	case <-box.ended:
	case <-time.After(killPatience):
		return &sandbox.Error{Op: "native: end sandbox", Msg: "its processes do not die; " + box.dir + " is kept for the next start"}
	}
	err := box.group.Remove(context.Background())
	box.guest.setup.Close()
	unix.Close(box.guest.pidfd)
	err = errors.Join(err, os.RemoveAll(box.dir))
	box.slot.release()
	if err != nil {
		return at("free sandbox", err)
	}
	return nil
}
