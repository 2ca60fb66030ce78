package gvisor

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

var _ sandbox.Box = (*Box)(nil)

func itoa(n int) string { return strconv.Itoa(n) }

// Box is one sandbox of gVisor's.
type Box struct {
	id        sandbox.ID
	spec      sandbox.Spec
	key       [32]byte
	dir       string
	ids       *hostid.Pair
	group     *cgroup.Group
	process   *pidfd.Process // runsc
	lifeline  net.Conn       // nil for a living box
	effective sandbox.Policy
	began     time.Time
	backend   *Backend
	emptied   []string // folders of a dead server's control groups, to be removed after the box's own

	ended chan struct{} // closed once every process of the sandbox is gone

	saving sync.Mutex // held by Checkpoint: one at a time

	mu      sync.Mutex // guards the fields below
	closing bool
	end     sandbox.End
	last    *sandbox.Usage // the figures at the end

	closeOnce sync.Once
	closeErr  error
}

// watch waits for the end of runsc, and ends what it may have left: it was killed, then.
func (box *Box) watch() {
	code, signal := box.process.Wait()
	box.group.Kill()
	if box.backend.caller.UID != 0 {
		ctx, cancel := context.WithTimeout(context.Background(), killPatience)
		endAll(ctx, box.id)
		cancel()
	}
	box.mu.Lock()
	box.end = sandbox.End{Cause: sandbox.EndDied, ExitCode: code, Signal: signal}
	switch {
	case box.closing:
		box.end.Cause = sandbox.EndClosed
	case code == 0:
		box.end.Cause = sandbox.EndGuest
	}
	usage := box.usage()
	box.last = &usage
	box.mu.Unlock()
	close(box.ended)
}

// destroy ends a box that is not watched yet.
func (box *Box) destroy() error {
	box.process.Kill()
	box.group.Kill()
	box.process.Wait()
	box.process.Close()
	if box.lifeline != nil {
		box.lifeline.Close()
	}
	return nil
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
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "gvisor: dial guest", Msg: "the sandbox has ended"}
	default:
	}
	conn, err := box.dial(ctx)
	if err != nil {
		return nil, at("dial guest", err)
	}
	return conn, nil
}

// Usage is what the control groups have counted, gVisor's own processes among it, and the last of it after the end.
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
		OOMKills: u.OOMKills, PidsNow: -1, DiskWritten: -1}
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

// killPatience bounds how long Close waits for killed processes. One that does not die in this time hangs in the kernel; its folder is
// then kept, until the next start finds it dead.
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
	box.group.Kill()
	box.process.Kill()
	select {
	case <-box.ended:
	case <-time.After(killPatience):
		return &sandbox.Error{Op: "gvisor: end sandbox", Msg: "its processes do not die; " + box.dir + " is kept for the next start"}
	}
	if box.lifeline != nil {
		box.lifeline.Close()
	}
	ctx, cancel := context.WithTimeout(context.Background(), killPatience)
	defer cancel()
	err := box.group.Remove(ctx)
	for _, dir := range box.emptied {
		cgroup.RemoveTree(dir)
	}
	box.process.Close()
	err = errors.Join(err, os.RemoveAll(box.dir))
	box.ids.Release()
	if err != nil {
		return at("free sandbox", err)
	}
	return nil
}
