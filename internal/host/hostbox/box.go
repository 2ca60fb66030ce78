// Package hostbox is the part of a box that backends share: its identity and record, its end, and, on Linux, the
// processes, control group and host ids of a box on this host.
package hostbox

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The first and the last step of making a box.
const (
	StepDir    = "make box folder"
	StepRecord = "write record"
)

// At returns an error of a backend's step. An error that already has an explanation keeps it, and nil stays nil.
func At(backend, step string, err error) error {
	var e *sandbox.Error
	if err == nil || errors.As(err, &e) {
		return err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: backend + ": " + step, Err: err}
}

// Fail is At, but fails the step failAt, for the test that fails each step.
func Fail(backend, failAt, step string, err error) error {
	if err == nil && failAt == step {
		err = syscall.EIO
	}
	return At(backend, step, err)
}

// Core is what every box has. Exported fields are set before Start and not changed after.
type Core struct {
	Backend string // its name, for errors
	Sandbox sandbox.ID
	Key     [32]byte
	Dir     string
	Policy  sandbox.Policy // enforced on it
	Began   time.Time
	Before  cgroup.Counts    // what its control group has counted before
	Claims  *instance.Claims // hold the box; nil if this process made it
	Outer   tap.Kept         // the outer end of its network, until Link

	image heldImage // its root

	ended chan struct{} // closed once every process of the sandbox is gone

	mu      sync.Mutex // guards the fields below, and Box.last
	closing bool
	end     sandbox.End

	closeMu  sync.Mutex // held while the box closes; guards the fields below
	freed    bool
	closeErr error
}

// Start makes a complete box usable. Its backend calls Finish once its processes are gone.
func (c *Core) Start() { c.ended = make(chan struct{}) }

// Finish records how the sandbox ended.
func (c *Core) Finish(end sandbox.End) {
	c.mu.Lock()
	if c.closing {
		end.Cause = sandbox.EndClosed
	}
	c.end = end
	c.mu.Unlock()
	if c.image.root.Lock != nil {
		c.image.root.Release()
	}
	close(c.ended)
}

func (c *Core) ID() sandbox.ID { return c.Sandbox }

// GuestKey returns the key that the guest demands on a connection.
func (c *Core) GuestKey() [32]byte { return c.Key }

func (c *Core) Effective() sandbox.Policy { return c.Policy }

// Alive returns the error for dialing a box that has ended, otherwise nil.
func (c *Core) Alive() error {
	select {
	case <-c.ended:
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: c.Backend + ": dial guest", Msg: "the sandbox has ended"}
	default:
		return nil
	}
}

// Wait returns once every process of the sandbox is gone.
func (c *Core) Wait(ctx context.Context) (sandbox.End, error) {
	select {
	case <-c.ended:
		c.mu.Lock()
		defer c.mu.Unlock()
		return c.end, nil
	case <-ctx.Done():
		return sandbox.End{}, ctx.Err()
	}
}

// DialBy connects to the guest of a box that has not ended.
func (c *Core) DialBy(ctx context.Context, dial func(context.Context) (net.Conn, error)) (net.Conn, error) {
	if err := c.Alive(); err != nil {
		return nil, err
	}
	conn, err := dial(ctx)
	if err != nil {
		return nil, At(c.Backend, "dial guest", err)
	}
	return conn, nil
}

// LinkBy returns the outer end of the box's network: the kept one, or one that open opens.
func (c *Core) LinkBy(open func() (*os.File, error)) (io.ReadWriteCloser, error) {
	if !c.Policy.Network.Linked() {
		return nil, tap.None()
	}
	end, err := c.Outer.Take(open)
	if err != nil {
		return nil, At(c.Backend, "link", err)
	}
	return end, nil
}

func (c *Core) IsClosing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.closing
}

// SetClosing makes IsClosing true, and Finish record a closed sandbox.
func (c *Core) SetClosing() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.closing = true
}

// CloseBy ends the box with end, then frees its resources with free, once. If end fails, a further call tries again.
func (c *Core) CloseBy(end, free func() error) error {
	c.closeMu.Lock()
	defer c.closeMu.Unlock()
	if c.freed {
		return c.closeErr
	}
	release := c.Outer.Shut()
	if err := end(); err != nil {
		return errors.Join(err, release())
	}
	c.freed, c.closeErr = true, errors.Join(free(), release())
	return c.closeErr
}

// Record writes the record that another process needs to reattach the box, which makes it living. spec may be nil.
func (c *Core) Record(lifetime sandbox.Lifetime, spec *sandbox.Spec) error {
	return instance.Box{Key: c.Key[:], Lifetime: lifetime, Spec: spec, Effective: c.Policy, Began: c.Began,
		Before: c.Before}.Write(c.Dir)
}

// PromoteBy makes the box living with record, which writes its record. The lifeline stays: the guest ends with it until
// it has a lease.
func (c *Core) PromoteBy(lifetime sandbox.Lifetime, record func() error) error {
	const step = "promote"
	if !lifetime.Living {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: c.Backend + ": " + step,
			Msg: "the lifetime is that of a one-shot sandbox"}
	}
	c.mu.Lock() // so that Close does not begin meanwhile
	defer c.mu.Unlock()
	if c.Alive() != nil || c.closing {
		return &sandbox.Error{Kind: sandbox.NotFound, Op: c.Backend + ": " + step, Msg: "the sandbox has ended"}
	}
	return At(c.Backend, step, record())
}

// Load reads a living box's record from its folder into the box, and returns it.
func (c *Core) Load() (rec instance.Box, err error) {
	rec, err = instance.ReadBox(c.Dir)
	if errors.Is(err, fs.ErrNotExist) || err == nil && (!rec.Lifetime.Living || len(rec.Key) != len(c.Key)) {
		return rec, c.NotFound(instance.NotLiving)
	}
	copy(c.Key[:], rec.Key)
	c.Policy, c.Began, c.Before = rec.Effective, rec.Began, rec.Before
	return rec, err
}

// NotFound returns the error for a box that cannot be reattached.
func (c *Core) NotFound(msg string) error {
	return &sandbox.Error{Kind: sandbox.NotFound, Op: c.Backend + ": reattach " + string(c.Sandbox), Msg: msg}
}
