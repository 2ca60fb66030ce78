package volume

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"

	"github.com/fumehood-dev/fumehood/internal/host/filelock"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// user is the content of a user's file.
type user struct {
	ReadOnly bool   `json:"read_only"`
	RunDir   string `json:"run_dir"` // below which its box is
}

// locked opens a file, which it makes if it is missing, and waits for its lock. fs.ErrNotExist: its folder was removed,
// or replaced.
func locked(ctx context.Context, path string) (unlock func(), err error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	if err = filelock.Wait(ctx, f); err == nil && !filelock.IsAt(f, path) {
		err = fs.ErrNotExist
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { _ = filelock.Close(f) }, nil
}

// users returns the living users of a volume. It stops once it has found most of them, and removes the files of ended
// ones before. The caller holds the volume's lock.
func (s *Store) users(dir string, most int) (list []sandbox.VolumeUser, err error) {
	entries, err := os.ReadDir(filepath.Join(dir, usersDir))
	for _, e := range entries {
		if len(list) == most {
			break
		}
		id, err := sandbox.ParseID(e.Name())
		if err != nil {
			continue
		}
		path := filepath.Join(dir, usersDir, e.Name())
		u, lives, err := s.user(path, id)
		if err != nil {
			return nil, err
		}
		if lives {
			list = append(list, sandbox.VolumeUser{Sandbox: id, ReadOnly: u.ReadOnly})
		} else if err := os.Remove(path); err != nil {
			return nil, err
		}
	}
	return list, err
}

// user reads the file of a user, and reports whether its sandbox lives, or is being made.
func (s *Store) user(path string, id sandbox.ID) (u user, lives bool, err error) {
	f, err := os.Open(path)
	if err != nil {
		return u, false, err
	}
	if err := json.NewDecoder(f).Decode(&u); err != nil {
		return u, false, f.Close() // its process was killed before it made a sandbox
	}
	if err := filelock.Try(f); err != nil {
		if lives = filelock.Held(err); lives {
			err = nil
		}
		return u, lives, errors.Join(err, f.Close())
	}
	defer func() { err = errors.Join(err, filelock.Close(f)) }()
	lives, err = s.options.Lives(u.RunDir, id)
	return u, lives, err
}

// Hold makes a sandbox a user of a volume of its owner, before its box is made. Call Release once the box exists, or
// could not be made. NotFound: the owner has none of this name. Exists: another sandbox writes to it.
func (s *Store) Hold(ctx context.Context, owner string, id sandbox.ID, v sandbox.Volume) (h sandbox.HeldVolume,
	err error) {
	rec, err := s.find(owner, v.Name)
	if err != nil {
		return h, err
	}
	dir := s.path(folder(owner, v.Name))
	unlock, err := locked(ctx, filepath.Join(dir, lockFile))
	if errors.Is(err, fs.ErrNotExist) {
		return h, notFound(v.Name)
	}
	if err != nil {
		return h, failed("lock "+v.Name, err)
	}
	defer unlock()
	users, err := s.users(dir, math.MaxInt)
	if errors.Is(err, fs.ErrNotExist) { // removed after find
		return h, notFound(v.Name)
	}
	if err != nil {
		return h, failed("list the users of "+v.Name, err)
	}
	for _, u := range users {
		if !v.ReadOnly && !u.ReadOnly {
			return h, &sandbox.Error{Kind: sandbox.Exists, Op: "volume",
				Msg: fmt.Sprintf("sandbox %s writes to %s, and only one may", u.Sandbox, v.Name),
				Fix: "use it read-only, or end that sandbox first"}
		}
	}
	claim, err := s.claim(filepath.Join(dir, usersDir, string(id)), user{v.ReadOnly, s.options.RunDir})
	if err != nil {
		return h, failed("use "+v.Name, err)
	}
	h.Mount = sandbox.Mount{Volume: v.Name, Writable: !v.ReadOnly}
	release := func() {}
	if rec.Disk {
		h.Mount.Open, release, err = s.mount(ctx, filepath.Join(dir, diskFile))
	} else {
		h.Mount.Source = filepath.Join(dir, filesDir)
	}
	if err != nil {
		return h, failed("mount "+v.Name, errors.Join(err, claim.Close()))
	}
	h.Release = func() {
		release()
		_ = filelock.Close(claim)
	}
	return h, nil
}

// claim writes the file of a user and locks it.
func (s *Store) claim(path string, u user) (f *os.File, err error) {
	text, err := json.Marshal(u)
	if err != nil {
		return nil, err
	}
	if f, err = os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600); err != nil {
		return nil, err
	}
	if err = filelock.Try(f); err == nil {
		_, err = f.Write(text)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close(), os.Remove(path))
	}
	return f, nil
}
