//go:build unix

package keyfile

import (
	"errors"
	"io/fs"
	"os"
	"syscall"
	"time"

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
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|syscall.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, err
	}
	for deadline := time.Now().Add(lockTime); ; time.Sleep(lockPause) {
		err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
		switch {
		case err == nil:
			return func() { _ = f.Close() }, nil // closing frees the lock
		case errors.Is(err, syscall.EINTR) || errors.Is(err, syscall.EWOULDBLOCK) && time.Now().Before(deadline):
			continue
		case errors.Is(err, syscall.EWOULDBLOCK):
			err = &sandbox.Error{Kind: sandbox.Busy, Op: path, Msg: "another process is changing the keys"}
		}
		return nil, errors.Join(err, f.Close())
	}
}

// likeFile gives a file the owner and the mode of another: a server's user may read it as a group.
func likeFile(f *os.File, old fs.FileInfo) error {
	mine, err := f.Stat()
	if err != nil {
		return err
	}
	st, own := old.Sys().(*syscall.Stat_t), mine.Sys().(*syscall.Stat_t)
	if own.Uid != st.Uid || own.Gid != st.Gid {
		if err := f.Chown(int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return f.Chmod(old.Mode().Perm())
}
