package hostbox

import (
	"context"
	"errors"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Base is what every backend has: a name, a failpoint, and this process's instance.
type Base struct {
	Backend string // its name
	RunDir  string
	FailAt  string // a step that fails, for the test of all steps
	Images  Images // roots of sandboxes; nil supports no images

	Recheck time.Duration // of Reap (instance.Reaper)

	Claims instance.Claims // reattached boxes

	mu sync.Mutex         // guards In
	In *instance.Instance // this process's; nil before Opened
}

func (b *Base) Name() string                      { return b.Backend }
func (b *Base) At(step string, err error) error   { return At(b.Backend, step, err) }
func (b *Base) Fail(step string, err error) error { return Fail(b.Backend, b.FailAt, step, err) }

// Opened returns this process's instance, which the first call opens with open and prepares.
func (b *Base) Opened(open func(run string) (*instance.Instance, error),
	prepare func(*instance.Instance) error) (*instance.Instance, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.In != nil {
		return b.In, nil
	}
	in, err := open(b.RunDir)
	if err != nil {
		return nil, b.At("open instance", err)
	}
	if err := prepare(in); err != nil {
		return nil, errors.Join(b.At("open instance", err), in.Close())
	}
	b.In = in
	return in, nil
}

// ReattachBy claims a living box that its server left, and makes it from its folder.
func (b *Base) ReattachBy(ctx context.Context, id sandbox.ID, open func(dir string) (sandbox.Box, error)) (sandbox.Box,
	error) {
	dir, err := b.Claims.Claim(ctx, b.RunDir, id)
	if err != nil {
		return nil, b.At("reattach", err)
	}
	box, err := open(dir)
	if err != nil {
		return nil, errors.Join(b.At("reattach", err), b.Claims.Release(ctx, dir))
	}
	return box, nil
}

// Close releases this process's instance and its reattached boxes. It ends no living box.
func (b *Base) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.In != nil {
		err = b.In.Close()
		b.In = nil
	}
	return errors.Join(err, b.Claims.Close())
}
