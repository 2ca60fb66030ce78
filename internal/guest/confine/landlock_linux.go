package confine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// landlock restricts the calling thread, and what is started from it, to the granted paths. The host chose rights that this kernel's
// version knows; a right that is handled and not granted is denied. The guest's other threads stay outside of the domain, so that
// its scopes keep the code from signalling the guest too.
func landlock(handled, scoped uint64, grants []Access) error {
	if handled|scoped == 0 {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: handled, Scoped: scoped}
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	if scoped == 0 {
		size = unsafe.Offsetof(attr.Handled_access_net) // what the first version of the interface has
	}
	r, _, errno := unix.Syscall(unix.SYS_LANDLOCK_CREATE_RULESET, uintptr(unsafe.Pointer(&attr)), size, 0)
	if errno != 0 {
		return errno
	}
	ruleset := int(r)
	defer unix.Close(ruleset)
	for _, g := range grants {
		if err := grant(ruleset, g); err != nil {
			return at(g.Path, err)
		}
	}
	if _, _, errno := unix.Syscall(unix.SYS_LANDLOCK_RESTRICT_SELF, uintptr(ruleset), 0, 0); errno != 0 {
		return errno
	}
	return nil
}

// Rights that may be granted on a file; the others are about folders, and the kernel refuses them on a file.
const fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE | unix.LANDLOCK_ACCESS_FS_READ_FILE |
	unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

func grant(ruleset int, g Access) error {
	fd, err := unix.Open(g.Path, unix.O_PATH|unix.O_CLOEXEC, 0)
	if err == unix.ENOENT {
		return nil
	}
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		return err
	}
	beneath := unix.LandlockPathBeneathAttr{Allowed_access: g.Rights, Parent_fd: int32(fd)}
	if st.Mode&unix.S_IFMT != unix.S_IFDIR {
		beneath.Allowed_access &= fileRights
	}
	if beneath.Allowed_access == 0 {
		return nil
	}
	_, _, errno := unix.Syscall6(unix.SYS_LANDLOCK_ADD_RULE, uintptr(ruleset), unix.LANDLOCK_RULE_PATH_BENEATH,
		uintptr(unsafe.Pointer(&beneath)), 0, 0, 0)
	if errno != 0 {
		return errno
	}
	return nil
}
