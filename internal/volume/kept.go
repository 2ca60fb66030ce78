package volume

import (
	"context"
	"io/fs"
	"os"
	"time"
)

// keptFor is how long a file system stays mounted without use. To mount it again takes milliseconds, and longer while
// the kernel unmounts it.
const keptFor = 10 * time.Second

// disk is the mounted file system of a volume.
type disk struct {
	device string      // its loop device
	file   fs.FileInfo // of the file that has the file system
	fd     int         // of a detached mount, which keeps the file system and the device
	users  int         // calls to Hold without Release
	idle   *time.Timer
}

// mount mounts the file system of a volume unless it is. again returns further mounts of it until release. The caller
// holds the volume's lock, so there is no other call for it. Those for other volumes do not wait: there may be no free
// loop device for a while.
func (s *Store) mount(ctx context.Context, path string) (again func() (int, error), release func(), err error) {
	file, err := os.Lstat(path)
	if err != nil {
		return nil, nil, err
	}
	d := s.mounted(path, file)
	if d == nil {
		if d, err = mountDisk(ctx, path); err != nil {
			return nil, nil, err
		}
		d.file, d.users = file, 1
		s.mu.Lock()
		s.kept[path] = d
		s.mu.Unlock()
	}
	return d.again, func() { s.release(path, d) }, nil
}

// mounted returns the file system of a volume, and counts a user of it; nil is one that is not mounted. The path may
// be that of a newer volume: another process can remove a volume and make one of the same name.
func (s *Store) mounted(path string, file fs.FileInfo) *disk {
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.kept[path]
	if d == nil {
		return nil
	}
	if !os.SameFile(d.file, file) {
		s.removed(path, d)
		return nil
	}
	if d.idle != nil {
		d.idle.Stop()
	}
	d.users++
	return d
}

func (s *Store) release(path string, d *disk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d.users--; d.users > 0 {
		return
	}
	if s.closed || s.kept[path] != d {
		s.drop(path, d)
		return
	}
	d.idle = time.AfterFunc(keptFor, func() {
		s.mu.Lock()
		defer s.mu.Unlock()
		if d.users == 0 && s.kept[path] == d {
			s.drop(path, d)
		}
	})
}

// drop unmounts a file system without users. The caller holds mu.
func (s *Store) drop(path string, d *disk) {
	if s.kept[path] == d {
		delete(s.kept, path)
	}
	d.close()
}

// forget unmounts the file system of a volume that is removed.
func (s *Store) forget(path string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if d := s.kept[path]; d != nil {
		s.removed(path, d)
	}
}

// removed forgets the file system of a volume that was removed. The caller holds mu.
func (s *Store) removed(path string, d *disk) {
	delete(s.kept, path)
	if d.users == 0 {
		d.idle.Stop()
		d.close()
	}
}

// Close unmounts what no sandbox uses. Volumes in use stay mounted in their sandboxes. It waits for nothing: no call to
// Hold is without its Release.
func (s *Store) Close() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed = true
	for path, d := range s.kept {
		if d.users == 0 {
			d.idle.Stop()
			s.drop(path, d)
		}
	}
	return nil
}
