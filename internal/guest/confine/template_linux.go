package confine

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Template builds the root of p, reports, and keeps it until the host closes setup. The host keeps the mount namespace.
// Guests whose plans have Template are spawned in copies of it, so none builds this part or ever sees the host's
// mounts. As a copy belongs to another user namespace, the kernel locks everything in it: no guest can unmount it, make
// it writable or look beneath it (mount_namespaces(7)).
//
// A guest may mount its own /proc only if its mount namespace has a fully visible one. So the template has one, of this
// process's pid namespace, which dies with it. It is in a hidden mount: a file system that the new root covers, so no
// path leads to it.
func Template(p *Plan, setup *os.File) error {
	a := &applying{plan: p}
	a.root.proc = -1 // no proc of its own
	hidden := -1
	err := a.all([]step{
		{StepPrivate, func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") }},
		{StepSources, func() error { return a.root.openSources(p.Root, nil) }},
		{StepHidden, func() (err error) { hidden, err = a.root.hiddenMount(); return err }},
		{StepNewRoot, a.root.attach},
		{StepRoot, a.buildRoot},
		{StepSealRoot, func() error { return a.root.seal(".") }},
		{StepPivot, func() error {
			if err := pivotTo(hidden); err != nil {
				return err
			}
			// Up from the hidden mount. Joining the namespace also arrives here.
			if err := unix.Fchdir(a.root.fd); err != nil {
				return err
			}
			if err := unix.Chroot("."); err != nil {
				return err
			}
			return standInside()
		}},
	})
	if err == nil {
		err = Report(setup, nil)
	}
	if err == nil {
		_, err = io.Copy(io.Discard, setup)
	}
	return err
}

// hiddenMount makes the file system beneath the new root.
func (r *root) hiddenMount() (int, error) {
	const proc = "proc"
	fd, err := tmpfs(Step{Size: int64(os.Getpagesize()), Inodes: 4, Mode: 0o500}, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Mkdirat(fd, proc, 0o500); err != nil {
		return -1, err
	}
	if err := r.cover(fd); err != nil {
		return -1, err
	}
	mount, err := detachedProc()
	if err != nil {
		return -1, err
	}
	defer unix.Close(mount)
	if err := unix.MoveMount(mount, "", fd, proc, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return -1, err
	}
	return fd, unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY})
}

// adopt uses the root in which this process was spawned as the new one. It fails unless that is the host's template,
// and not, for example, the host's own root.
func (r *root) adopt(device uint64) error {
	fd, err := unix.Open("/", unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return err
	}
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	if st.Dev != device {
		return unix.EXDEV
	}
	r.fd, r.inert = fd, "/"
	return nil
}
