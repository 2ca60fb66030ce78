package native

import (
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/internal/guest/confine"
	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/internal/pidfd"
	"github.com/glovebox-dev/glovebox/sandbox"
)

var _ sandbox.Box = (*Box)(nil)

// Box is one native sandbox.
type Box struct {
	id        sandbox.ID
	key       [32]byte
	dir       string
	slot      *hostid.Pair
	group     *cgroup.Group
	process   *pidfd.Process
	lifeline  io.Closer // nil for a box that was taken back
	effective sandbox.Policy
	began     time.Time
	backend   *Backend
	walls     *confine.Plan // what a fork of a zygote does to itself here; nil where none may be put in
	entry     entry         // of a fork
	emptied   []string      // folders of a dead server's control groups, to be removed after the box's own

	ended chan struct{} // closed once the guest is reaped, and with it every process of the sandbox is gone

	mu      sync.Mutex // guards the fields below
	closing bool
	end     sandbox.End
	last    *sandbox.Usage // the figures at the end

	closeOnce sync.Once
	closeErr  error
}

// entry is held by Fork, so that what it works with is not given up meanwhile: the control group may be the next sandbox's then.
type entry struct {
	sync.Mutex
	used bool
}

// start takes the guest over.
func (box *Box) start(g *born) {
	box.process, box.lifeline, box.began = g.process, g.setup, time.Now()
	go box.watch()
}

// watch waits for the guest's end. It ends with the guest, which Close brings about.
func (box *Box) watch() {
	code, signal := box.process.Wait()
	box.mu.Lock()
	box.end = sandbox.End{Cause: sandbox.EndDied, ExitCode: code, Signal: signal}
	switch {
	case box.closing:
		box.end.Cause = sandbox.EndClosed
	case code >= 0:
		box.end.Cause = sandbox.EndGuest
	}
	usage := box.usage()
	box.last = &usage
	box.mu.Unlock()
	close(box.ended)
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

func (box *Box) isClosing() bool {
	box.mu.Lock()
	defer box.mu.Unlock()
	return box.closing
}

func (box *Box) close() error {
	box.mu.Lock()
	box.closing = true
	box.mu.Unlock()
	box.process.Kill()
	select {
	case <-box.ended:
	case <-time.After(killPatience):
		return &sandbox.Error{Op: "native: end sandbox", Msg: "its processes do not die; " + box.dir + " is kept for the next start"}
	}
	box.entry.Lock() // soon, as what is forked has nowhere to go any more
	defer box.entry.Unlock()
	err := box.group.Remove(context.Background())
	if box.lifeline != nil {
		box.lifeline.Close()
	}
	for _, dir := range box.emptied {
		cgroup.RemoveTree(dir)
	}
	box.process.Close()
	err = errors.Join(err, os.RemoveAll(box.dir))
	box.slot.Release()
	if err != nil {
		return at("free sandbox", err)
	}
	return nil
}
