package attack

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"golang.org/x/sys/unix"
)

// canaryPrefix begins the names of all folders made on the host for attacks.
const canaryPrefix = "fumehood-canary-"

var errNotMade = errors.New("the folder cannot be made")

// makeOwn makes a folder and locks it. It retries if a sweep removes the folder in between.
func makeOwn(folder string) (remove func() error, err error) {
	const most = 10
	for range most {
		if err := os.Mkdir(folder, 0o755); err != nil {
			return nil, errors.Join(errNotMade, err)
		}
		if remove, err = own(folder); err == nil {
			return remove, nil
		}
	}
	return nil, err
}

// own locks a new folder until remove or the end of this process. The lock keeps sweeps from removing the folder.
func own(folder string) (remove func() error, err error) {
	lock, err := os.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return nil, errors.Join(err, os.RemoveAll(folder))
	}
	// A sweep may hold the lock now, and removes the folder.
	err = filelock.Exclusive(lock)
	if err == nil {
		_, err = os.Stat(folder)
	}
	if err != nil {
		return nil, errors.Join(err, lock.Close(), os.RemoveAll(folder))
	}
	return func() error { return errors.Join(os.RemoveAll(folder), lock.Close()) }, nil
}

// ownFolder makes a folder of this name below the temporary folder, and owns it.
func ownFolder(name string) (folder string, remove func() error, err error) {
	folder = filepath.Join(os.TempDir(), canaryPrefix+name)
	if remove, err = makeOwn(folder); err == nil {
		err = os.Chmod(folder, 0o755) // overrides the umask
	}
	return folder, remove, err
}

// sweepCanaries removes the canaries of killed processes of this user below the folders.
func sweepCanaries(tops []string) {
	for _, top := range append([]string{os.TempDir()}, tops...) {
		left, _ := filepath.Glob(filepath.Join(top, canaryPrefix+"*"))
		for _, folder := range left {
			sweepCanary(folder)
		}
	}
}

func sweepCanary(folder string) {
	lock, err := os.OpenFile(folder, os.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW, 0)
	if err != nil {
		return
	}
	defer lock.Close()
	var st unix.Stat_t
	if unix.Fstat(int(lock.Fd()), &st) != nil || int(st.Uid) != os.Geteuid() ||
		filelock.Try(lock) != nil {
		return // of another user, or of a living process
	}
	marker := filepath.Base(folder)
	if secret, err := os.ReadFile(filepath.Join(folder, marker+".txt")); err == nil {
		removeSegment(segmentKey(marker), bytes.TrimSpace(secret))
	}
	_ = os.RemoveAll(folder) // the next start tries again
}

// segmentKey returns the key of a marker's System V segment. A sweep finds the segment by it.
func segmentKey(marker string) int32 {
	sum := sha256.Sum256([]byte(marker))
	return int32(binary.LittleEndian.Uint32(sum[:])&0x7fffffff | 1)
}

// segmentSize is one page.
const segmentSize = 4096

// shareSegment makes a world-readable System V segment with the secret in it.
func (c *Canaries) shareSegment() error {
	c.segment = segmentKey(c.marker)
	id, err := unix.SysvShmGet(int(c.segment), segmentSize, unix.IPC_CREAT|unix.IPC_EXCL|0o666)
	if err != nil {
		return os.NewSyscallError("shmget", err)
	}
	c.closers = append(c.closers, func() error {
		_, err := unix.SysvShmCtl(id, unix.IPC_RMID, nil)
		return err
	})
	mem, err := unix.SysvShmAttach(id, 0, 0)
	if err != nil {
		return os.NewSyscallError("shmat", err)
	}
	copy(mem, c.Secret)
	return unix.SysvShmDetach(mem)
}

// removeSegment removes the segment with that key if it begins with the secret.
func removeSegment(key int32, secret []byte) {
	id, err := unix.SysvShmGet(int(key), 0, 0)
	if err != nil || len(secret) == 0 {
		return
	}
	mem, err := unix.SysvShmAttach(id, 0, unix.SHM_RDONLY)
	if err != nil {
		return
	}
	ours := strings.HasPrefix(string(mem), string(secret))
	if unix.SysvShmDetach(mem) == nil && ours {
		_, _ = unix.SysvShmCtl(id, unix.IPC_RMID, nil)
	}
}
