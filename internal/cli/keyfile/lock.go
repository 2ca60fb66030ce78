package keyfile

import (
	"context"
	"errors"
	"os"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// lockTime is how long lock waits. A change takes a millisecond.
const lockTime = 10 * time.Second

// lock waits until no other process holds a lock file, which only its owner can open. A lock on the folder would let
// every user of this host delay a revocation.
func lock(path string) (unlock func(), err error) {
	f, err := hostfiles.OpenResolved(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeoutCause(context.Background(), lockTime,
		&sandbox.Error{Kind: sandbox.Busy, Op: path, Msg: "another process is changing the keys"})
	defer cancel()
	if err := filelock.Wait(ctx, f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = filelock.Close(f) }, nil
}
