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
	var unused *disk
	defer func() { unused.close() }()
	s.mu.Lock()
	defer s.mu.Unlock()
	d := s.kept[path]
	if d == nil || !os.SameFile(d.file, file) {
		unused = s.untrack(path)
		return nil
	}
	if d.idle != nil {
		d.idle.Stop()
	}
	d.users++
	return d
}

// untrack removes the file system of a path from kept. It returns one without users, which the caller closes without
// mu, as the kernel first writes its cached data to the disk. One with users is closed by the last of them. The caller
// holds mu.
func (s *Store) untrack(path string) (unused *disk) {
	d := s.kept[path]
	delete(s.kept, path)
	if d == nil || d.users > 0 {
		return nil
	}
	if d.idle != nil {
		d.idle.Stop()
	}
	return d
}

func (s *Store) release(path string, d *disk) {
	var unused *disk
	s.mu.Lock()
	d.users--
	switch isKept := s.kept[path] == d; {
	case d.users > 0:
	case !isKept:
		unused = d
	case s.closed:
		unused = s.untrack(path)
	default:
		d.idle = time.AfterFunc(keptFor, func() { s.expire(path, d) })
	}
	s.mu.Unlock()
	unused.close()
}

// expire unmounts a file system, unless it has a user again.
func (s *Store) expire(path string, d *disk) {
	var unused *disk
	s.mu.Lock()
	if d.users == 0 && s.kept[path] == d {
		unused = s.untrack(path)
	}
	s.mu.Unlock()
	unused.close()
}

// forget is untrack for the path of a volume that is removed.
func (s *Store) forget(path string) (unused *disk) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.untrack(path)
}

// Close unmounts what no sandbox uses. Volumes in use stay mounted in their sandboxes. It waits for nothing: no call to
// Hold is without its Release.
func (s *Store) Close() error {
	s.mu.Lock()
	s.closed = true
	var unused []*disk
	for path, d := range s.kept {
		if d.users == 0 {
			unused = append(unused, s.untrack(path))
		}
	}
	s.mu.Unlock()
	for _, d := range unused {
		d.close()
	}
	return nil
}
