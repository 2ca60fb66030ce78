package files

import (
	"strings"

	"golang.org/x/sys/unix"
)

// Flags for opening. Opening never blocks: a pipe without a writer and a file under a lease answer at once, and a
// terminal never becomes the guest's controlling one.
const (
	openAlways = unix.O_CLOEXEC | unix.O_NONBLOCK | unix.O_NOCTTY
	openPath   = unix.O_PATH | unix.O_CLOEXEC // openat2 allows no other flags with O_PATH
	openFolder = unix.O_RDONLY | unix.O_DIRECTORY | unix.O_NOFOLLOW | openAlways

	// within keeps a name below its starting folder and follows no link.
	within = unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS

	maxLinks = 40 // links in one path, as in the kernel
	maxTries = 16 // if the kernel returns EAGAIN, or the code changes files during a call
)

// open opens a file. It follows links inside the sandbox's root, unless resolve or O_NOFOLLOW forbids it, but never the
// magic links of /proc, which lead out.
func (t *Tree) open(dir int, path string, flags int, mode uint32, resolve uint64) (int, error) {
	resolve |= unix.RESOLVE_NO_MAGICLINKS
	if t.walks.Load() {
		return openWalking(dir, path, flags, mode, resolve)
	}
	how := unix.OpenHow{Flags: uint64(flags), Mode: uint64(mode), Resolve: resolve}
	for try := 0; ; try++ {
		fd, err := unix.Openat2(dir, path, &how)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.EAGAIN && try < maxTries: // a concurrent rename may be the cause
			continue
		case err == unix.ENOSYS, err == unix.EPERM && !openat2Works():
			t.walks.Store(true)
			return openWalking(dir, path, flags, mode, resolve)
		}
		return fd, err
	}
}

// openat2Works reports whether the kernel (5.6) and the container's seccomp filters, which may answer EPERM, support
// openat2. Not every version of gVisor does.
func openat2Works() bool {
	fd, err := unix.Openat2(unix.AT_FDCWD, "/", &unix.OpenHow{Flags: openPath})
	if err == nil {
		unix.Close(fd)
	}
	return err == nil
}

// openWalking emulates openat2, one path element at a time.
func openWalking(dir int, path string, flags int, mode uint32, resolve uint64) (int, error) {
	w := openWalk{dir: dir, resolve: resolve}
	defer w.leave()
	if err := w.enter(path); err != nil {
		return -1, err
	}
	for {
		name := w.names[0]
		w.names = w.names[1:]
		last := len(w.names) == 0
		fd, err := openat(w.dir, name, openPath|unix.O_NOFOLLOW, 0)
		if last && err == unix.ENOENT && flags&unix.O_CREAT != 0 {
			return openat(w.dir, name, flags|unix.O_NOFOLLOW, mode)
		}
		if err != nil {
			return -1, err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			unix.Close(fd)
			return -1, err
		}
		switch kind := st.Mode & unix.S_IFMT; {
		case kind == unix.S_IFLNK && !(last && flags&unix.O_NOFOLLOW != 0):
			err = w.follow(fd, name)
			unix.Close(fd)
			if err != nil {
				return -1, err
			}
		case last:
			return w.finish(fd, name, kind, flags, mode)
		default:
			w.leave()
			w.dir, w.owned = fd, true
		}
	}
}

// openWalk is a walk's position and the remaining names.
type openWalk struct {
	dir     int
	owned   bool // the walk must close dir
	names   []string
	links   int
	resolve uint64
}

func (w *openWalk) leave() {
	if w.owned {
		unix.Close(w.dir)
		w.owned = false
	}
}

// enter puts a path before the remaining names.
func (w *openWalk) enter(path string) error {
	if path == "" {
		return unix.ENOENT
	}
	if path[0] == '/' {
		if w.resolve&unix.RESOLVE_BENEATH != 0 {
			return unix.EXDEV
		}
		root, err := openat(unix.AT_FDCWD, "/", openPath|unix.O_DIRECTORY, 0)
		if err != nil {
			return err
		}
		w.leave()
		w.dir, w.owned = root, true
	}
	var names []string
	for name := range strings.SplitSeq(path, "/") {
		if name == ".." && w.resolve&unix.RESOLVE_BENEATH != 0 {
			return unix.EXDEV
		}
		if name != "" {
			names = append(names, name)
		}
	}
	if strings.HasSuffix(path, "/") || len(names) == 0 {
		names = append(names, ".")
	}
	w.names = append(names, w.names...)
	return nil
}

// follow continues along a link that is open in fd.
func (w *openWalk) follow(fd int, name string) error {
	if w.links++; w.links > maxLinks || w.resolve&unix.RESOLVE_NO_SYMLINKS != 0 {
		return unix.ELOOP
	}
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	if fs.Type == unix.PROC_SUPER_MAGIC {
		return unix.ELOOP // it may be a magic one
	}
	target, err := readLink(w.dir, name)
	if err != nil {
		return err
	}
	return w.enter(target)
}

// finish opens a walk's target. fd is an O_PATH descriptor of it.
func (w *openWalk) finish(fd int, name string, kind uint32, flags int, mode uint32) (int, error) {
	if flags&unix.O_DIRECTORY != 0 && kind != unix.S_IFDIR {
		unix.Close(fd)
		return -1, unix.ENOTDIR
	}
	if flags&unix.O_PATH != 0 {
		return fd, nil
	}
	unix.Close(fd)
	return openat(w.dir, name, flags|unix.O_NOFOLLOW, mode)
}

func openat(dir int, name string, flags int, mode uint32) (int, error) {
	for {
		fd, err := unix.Openat(dir, name, flags, mode)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

func readLink(dir int, name string) (string, error) {
	var buf [unix.PathMax]byte
	n, err := unix.Readlinkat(dir, name, buf[:])
	if err != nil {
		return "", err
	}
	return string(buf[:n]), nil
}

// pseudo lists file systems that are views of the kernel. Opened by the guest they show the guest, or allow what the
// code may not do: /proc/self/environ, /proc/sys, cgroup.procs.
var pseudo = [...]int64{
	unix.PROC_SUPER_MAGIC, unix.SYSFS_MAGIC, unix.CGROUP_SUPER_MAGIC, unix.CGROUP2_SUPER_MAGIC, unix.DEBUGFS_MAGIC,
	unix.TRACEFS_MAGIC, unix.SECURITYFS_MAGIC, unix.BPF_FS_MAGIC, unix.SELINUX_MAGIC, unix.SMACK_MAGIC, unix.NSFS_MAGIC,
	unix.PSTOREFS_MAGIC, unix.EFIVARFS_MAGIC, unix.BINFMTFS_MAGIC, unix.PID_FS_MAGIC,
	0x62656570, // configfs
	0x65735543, // fusectl
}

// served fails if fd is on such a file system.
func served(fd int) error {
	var fs unix.Statfs_t
	if err := unix.Fstatfs(fd, &fs); err != nil {
		return err
	}
	for _, magic := range pseudo {
		if int64(fs.Type) == magic {
			return errPseudo
		}
	}
	return nil
}

// openServed opens a file that must not be on such a file system.
func (t *Tree) openServed(dir int, path string, flags int, mode uint32, resolve uint64) (int, error) {
	fd, err := t.open(dir, path, flags, mode, resolve)
	if err != nil {
		return -1, err
	}
	if err := served(fd); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// openParent opens the folder above a place, for calls that make, move or remove its entries.
func (t *Tree) openParent(p place) (dir int, name string, err error) {
	parent, name, err := p.split()
	if err != nil {
		return -1, "", err
	}
	dir, err = t.openServed(unix.AT_FDCWD, parent, openPath|unix.O_DIRECTORY, 0, 0)
	return dir, name, err
}
