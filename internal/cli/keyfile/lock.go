package keyfile

import (
	"errors"
	"os"
	"time"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// How long lock waits, and how often it tries. A change takes a millisecond.
const (
	lockTime  = 10 * time.Second
	lockPause = 10 * time.Millisecond
)

// lock waits until no other process holds a lock file, which only its owner can open. A lock on the folder would let
// every user of this host delay a revocation.
func lock(path string) (unlock func(), err error) {
	f, err := hostfiles.OpenResolved(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockTime); ; time.Sleep(lockPause) {
		if err = filelock.Try(f); err == nil {
			return func() { _ = filelock.Close(f) }, nil
		}
		if filelock.Held(err) && time.Now().Before(deadline) {
			continue
		}
		if filelock.Held(err) {
			err = &sandbox.Error{Kind: sandbox.Busy, Op: path, Msg: "another process is changing the keys"}
		}
		return nil, errors.Join(err, f.Close())
	}
}
