package confine

import (
	"io"
	"os"

	"golang.org/x/sys/unix"
)

// Template builds the root of p, reports, and holds it until the host lets go of setup. What the host keeps is the mount namespace: a
// copy of it is where guests are spawned whose plans have Template, so that none has to build this part, nor has ever seen the host's
// mounts. As the copy belongs to another user namespace, the kernel locks all that is in it: no guest can take a mount away, make it
// writable or look beneath it (mount_namespaces(7)).
//
// A guest may mount its own /proc only where one is in its mount namespace that nothing hides. So there is one, of this process's pid
// namespace, which dies with it. It lies in a hidden mount: a file system that the new root covers, where no path leads to.
func Template(p *Plan, setup *os.File) error {
	a := &applying{plan: p}
	a.root.proc = -1 // none of its own
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
			// Up from the hidden mount. Joining the namespace leads here too.
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

// hiddenMount makes the file system below the new root.
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

// adopt takes the root that this process was spawned in for the new one. It must be the template that the host means: in any other, the
// host's own at worst, nothing may go on.
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
