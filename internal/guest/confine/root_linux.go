package confine

import (
	"path"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"
)

// root builds the new root on a detached tmpfs, and attaches it over a folder of the old one. It opens sources before,
// as the new root may hide them.
type root struct {
	fd      int // of the new root
	proc    int // our own proc mount, never attached
	sources []int
	inert   string         // the folder that the new root covers
	folders map[string]int // open folders of the new root: most steps are in /etc, /dev or /proc
}

// detachedProc mounts this pid namespace's proc without attaching it. The host's /proc must still be visible: in a user
// namespace the kernel permits a proc only where one is fully visible already (mount_too_revealing).
func detachedProc(options ...string) (int, error) {
	fs, err := unix.Fsopen("proc", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	for _, o := range options {
		key, value, _ := strings.Cut(o, "=")
		if err := unix.FsconfigSetString(fs, key, value); err != nil {
			return -1, err
		}
	}
	return mountOf(fs, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOEXEC)
}

func mountOf(fs int, attr int) (int, error) {
	if err := unix.FsconfigCreate(fs); err != nil {
		return -1, err
	}
	return unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, attr)
}

// openSources clones the mounts of all Bind and Device steps, with the mounts below them (a user namespace may not copy
// a mount without the locked ones beneath it), and sets their properties. fds are those that came with the plan. It
// runs as the user who started us: the sandbox's ids need no access to the caller's files.
func (r *root) openSources(steps []Step, fds []int) error {
	r.sources = make([]int, len(steps))
	for i, s := range steps {
		r.sources[i] = -1
		if s.Do != Bind && s.Do != Device {
			continue
		}
		fd, err := openSource(s, fds)
		if err == unix.ENOENT && s.Flags&Optional != 0 {
			continue
		}
		if err != nil {
			return at(s.Source, err)
		}
		if err := setProperties(fd, s); err != nil {
			return at(s.Source, err)
		}
		r.sources[i] = fd
	}
	return nil
}

func openSource(s Step, fds []int) (int, error) {
	if s.Source == "" {
		if int(s.FD) >= len(fds) {
			return -1, unix.EBADF
		}
		return fds[s.FD], nil
	}
	fd, err := CloneTree(s.Source, s.Flags)
	if err != nil || s.Do != Device {
		return fd, err
	}
	// A link or a file in place of a device node has turned masks into holes (CVE-2025-31133), so check the opened
	// file.
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return fd, err
	}
	if st.Mode&unix.S_IFMT != unix.S_IFCHR || int64(st.Rdev) != s.Size {
		return fd, unix.ENODEV
	}
	return fd, nil
}

// CloneTree clones a path's mount with all mounts below it. With NoLinks it follows no link.
func CloneTree(source string, flags Flags) (int, error) {
	const clone = unix.OPEN_TREE_CLONE | unix.OPEN_TREE_CLOEXEC | unix.AT_RECURSIVE
	if flags&NoLinks == 0 {
		return unix.OpenTree(unix.AT_FDCWD, source, clone)
	}
	place, err := unix.Openat2(unix.AT_FDCWD, source, &unix.OpenHow{Flags: unix.O_PATH | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_NO_SYMLINKS})
	if err != nil {
		return -1, err
	}
	defer unix.Close(place)
	return unix.OpenTree(place, "", clone|unix.AT_EMPTY_PATH)
}

func setProperties(fd int, s Step) error {
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID}
	if s.Do != Device {
		attr.Attr_set |= unix.MOUNT_ATTR_NODEV
	}
	if s.Flags&Writable == 0 && s.Do != Device {
		attr.Attr_set |= unix.MOUNT_ATTR_RDONLY
	}
	if s.Flags&NoExec != 0 || s.Do == Device {
		attr.Attr_set |= unix.MOUNT_ATTR_NOEXEC
	}
	return unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
}

// attach makes the new root and attaches it over a folder of the old one, which then vanishes. Any folder works that
// exists everywhere.
func (r *root) attach() error {
	fd, err := tmpfs(Step{Size: rootBytes, Inodes: rootInodes, Mode: 0o755}, 0)
	if err != nil {
		return err
	}
	r.fd = fd
	return r.cover(fd)
}

// attachWhole makes a mount that came with the plan the new root.
func (r *root) attachWhole(fds []int) error {
	if len(fds) == 0 {
		return unix.EBADF
	}
	r.fd = fds[0]
	return r.cover(r.fd)
}

// cover attaches a mount over the folder of the old root, on top of earlier ones.
func (r *root) cover(mount int) (err error) {
	for _, r.inert = range []string{"/tmp", "/usr", "/mnt"} {
		if err = unix.MoveMount(mount, "", unix.AT_FDCWD, r.inert, unix.MOVE_MOUNT_F_EMPTY_PATH); err == nil {
			return nil
		}
	}
	return err
}

// Limits of the new root itself: folders, links and generated files. The code can write to nothing on it.
const (
	rootBytes  = 4 << 20
	rootInodes = 4096
)

func tmpfs(s Step, attr int) (int, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(fs)
	// Its root belongs to the guest, which is not uid 0 if only one id is mapped.
	for _, o := range [...]struct{ key, value string }{
		{"size", strconv.FormatInt(s.Size, 10)}, {"nr_inodes", strconv.FormatInt(s.Inodes, 10)},
		{"mode", strconv.FormatUint(uint64(s.Mode), 8)},
	} {
		if err := unix.FsconfigSetString(fs, o.key, o.value); err != nil {
			return -1, err
		}
	}
	return mountOf(fs, attr|unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

func (r *root) build(i int, s Step) error {
	switch s.Do {
	case Dir:
		return r.dir(s)
	case Symlink:
		return r.in(s.Target, func(parent int, name string) error { return unix.Symlinkat(s.Source, parent, name) })
	case File:
		return r.file(s)
	case Bind, Device:
		if r.sources[i] < 0 {
			return nil // optional and missing
		}
		return r.bind(r.sources[i], s.Target)
	case Tmpfs:
		attr := 0
		if s.Flags&NoExec != 0 {
			attr = unix.MOUNT_ATTR_NOEXEC
		}
		fd, err := tmpfs(s, attr)
		if err != nil {
			return err
		}
		return r.bind(fd, s.Target)
	case Proc:
		return r.procMount(s)
	case Devpts:
		return r.devpts(s)
	case Mask:
		return r.mask(s)
	case Inner:
		return r.inner(s)
	case Detach:
		return r.detach(s)
	}
	return unix.EINVAL
}

// below opens a path of the new root. It follows no link and stays within the root.
func (r *root) below(target string, flags int) (int, error) {
	how := unix.OpenHow{Flags: uint64(flags | unix.O_CLOEXEC), Resolve: unix.RESOLVE_IN_ROOT | unix.RESOLVE_NO_SYMLINKS}
	return unix.Openat2(r.fd, target, &how)
}

// in calls do with target's open folder and target's last name. It makes missing folders on the way.
func (r *root) in(target string, do func(parent int, name string) error) error {
	dir, name := path.Split(path.Clean(target))
	if name == "" || name == ".." {
		return unix.EINVAL
	}
	if dir = path.Clean(dir); dir == "." || dir == "/" {
		return do(r.fd, name)
	}
	fd, known := r.folders[dir]
	if !known {
		var err error
		if fd, err = r.folder(dir); err != nil {
			return err
		}
		if r.folders == nil {
			r.folders = map[string]int{}
		}
		r.folders[dir] = fd
	}
	return do(fd, name)
}

func (r *root) folder(dir string) (int, error) {
	fd, err := r.below(dir, unix.O_PATH|unix.O_DIRECTORY)
	if err != unix.ENOENT {
		return fd, err
	}
	if err := r.dir(Step{Target: dir, Mode: 0o755}); err != nil {
		return -1, err
	}
	return r.below(dir, unix.O_PATH|unix.O_DIRECTORY)
}

// forget closes the open folders at and below target, which is now covered; "" means all.
func (r *root) forget(target string) {
	for dir, fd := range r.folders {
		if target == "" || dir == target || strings.HasPrefix(dir, target+"/") {
			unix.Close(fd)
			delete(r.folders, dir)
		}
	}
}

func (r *root) dir(s Step) error {
	return r.in(s.Target, func(parent int, name string) error {
		err := unix.Mkdirat(parent, name, s.Mode)
		if err != nil && err != unix.EEXIST {
			return err
		}
		if err != nil {
			return nil // already made, as a parent folder
		}
		if s.Mode&unix.S_ISVTX != 0 || s.Mode&0o022 != 0 {
			err = unix.Fchmodat(parent, name, s.Mode, 0) // mkdirat has applied the umask
		}
		if err == nil && s.UID|s.GID != 0 {
			err = unix.Fchownat(parent, name, int(s.UID), int(s.GID), unix.AT_SYMLINK_NOFOLLOW)
		}
		return err
	})
}

func (r *root) file(s Step) error {
	return r.in(s.Target, func(parent int, name string) error {
		fd, err := unix.Openat(parent, name, unix.O_WRONLY|unix.O_CREAT|unix.O_EXCL|unix.O_NOFOLLOW|unix.O_CLOEXEC,
			s.Mode)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		n, err := unix.Write(fd, []byte(s.Source))
		if err == nil && n < len(s.Source) { // a tmpfs writes all, unless it is full
			err = unix.ENOSPC
		}
		return err
	})
}

// bind attaches a detached mount. It makes a missing target on the new root's own tmpfs; inside another bind it must
// exist.
func (r *root) bind(mount int, target string) error {
	defer unix.Close(mount)
	return r.in(target, func(parent int, name string) error {
		var there, st unix.Stat_t
		err := unix.Fstatat(parent, name, &there, unix.AT_SYMLINK_NOFOLLOW)
		switch {
		case err == unix.ENOENT:
			if err = unix.Fstat(mount, &st); err != nil {
				return err
			}
			if st.Mode&unix.S_IFMT == unix.S_IFDIR {
				err = unix.Mkdirat(parent, name, 0o755)
			} else {
				err = unix.Mknodat(parent, name, unix.S_IFREG|0o644, 0)
			}
		case err == nil && there.Mode&unix.S_IFMT == unix.S_IFLNK:
			err = unix.ELOOP
		}
		if err != nil {
			return err
		}
		return r.attachAt(mount, parent, name, target)
	})
}

// attachAt attaches a mount to one name in a folder; the name must not be a link.
func (r *root) attachAt(mount, parent int, name, target string) error {
	if err := unix.MoveMount(mount, "", parent, name, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	r.forget(path.Clean(target))
	return nil
}

// procMount attaches a proc that shows the code only its own processes, read-only: otherwise the code could lower its
// oom_score_adj to the guest's.
func (r *root) procMount(s Step) error {
	fd, err := detachedProc("hidepid=invisible", "gid="+strconv.FormatUint(uint64(s.GID), 10))
	if err != nil {
		return err
	}
	return r.bind(fd, s.Target)
}

func (r *root) devpts(s Step) error {
	fs, err := unix.Fsopen("devpts", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(fs)
	for key, value := range map[string]string{"ptmxmode": "0" + strconv.FormatUint(uint64(s.Mode), 8), "mode": "0600",
		"max": "64"} {
		if err := unix.FsconfigSetString(fs, key, value); err != nil {
			return err
		}
	}
	fd, err := mountOf(fs, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NOEXEC)
	if err != nil {
		return err
	}
	return r.bind(fd, s.Target)
}

// inner attaches a folder of the new root a second time, so that several writable places share one limited file system.
func (r *root) inner(s Step) error {
	fd, err := r.clone(s.Source)
	if err != nil {
		return err
	}
	s.Do = Bind
	if err := setProperties(fd, s); err != nil {
		return err
	}
	return r.bind(fd, s.Target)
}

// detach unmounts a mount. Until the pivot the old root is still around us, so the path starts where the new root is
// attached.
func (r *root) detach(s Step) error {
	r.forget(path.Clean(s.Target))
	return unix.Unmount(path.Join(r.inert, s.Target), unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
}

// mask covers a file or folder of /proc, or of what the root shows, with an empty one of the new root. A missing one
// needs no mask.
func (r *root) mask(s Step) error {
	return r.in(s.Target, func(parent int, name string) error {
		var st unix.Stat_t
		if err := unix.Fstatat(parent, name, &st, unix.AT_SYMLINK_NOFOLLOW); err == unix.ENOENT {
			return nil
		} else if err != nil {
			return err
		}
		cover, err := r.clone(s.Source)
		if err != nil {
			return err
		}
		defer unix.Close(cover)
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NOEXEC}
		if err := unix.MountSetattr(cover, "", unix.AT_EMPTY_PATH, &attr); err != nil {
			return err
		}
		return r.attachAt(cover, parent, name, s.Target)
	})
}

// clone makes a detached mount of a file or folder of the new root.
func (r *root) clone(source string) (mount int, err error) {
	err = r.in(source, func(parent int, name string) error {
		mount, err = unix.OpenTree(parent, name, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_SYMLINK_NOFOLLOW)
		return err
	})
	return mount, err
}

// seal makes mounts of the new root read-only: its own tmpfs, ".", and its /proc if there is one. Other mounts have
// their own properties.
func (r *root) seal(targets ...string) error {
	r.forget("")
	for _, target := range targets {
		fd, err := r.below(target, unix.O_PATH)
		if err != nil {
			return err
		}
		err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
		unix.Close(fd)
		if err != nil {
			return err
		}
	}
	return nil
}

// pivot makes the new root the root and detaches the old one.
func (r *root) pivot() error {
	if err := pivotTo(r.fd); err != nil {
		return err
	}
	return standInside()
}

func pivotTo(root int) error {
	if err := unix.Fchdir(root); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return err
	}
	// The old root is now mounted over the new one at ".", so this detaches the old one.
	return unix.Unmount(".", unix.MNT_DETACH)
}

func standInside() error {
	if err := unix.Chdir("/"); err != nil {
		return err
	}
	wd, err := syscall.Getwd()
	if err != nil {
		return err
	}
	if wd != "/" { // "(unreachable)..." would mean that we are outside
		return unix.EXDEV
	}
	return nil
}
