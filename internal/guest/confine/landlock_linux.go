package confine

import (
	"unsafe"

	"golang.org/x/sys/unix"
)

// Descriptors for the Landlock calls, as a rule's structure contains its folder's number. They are above all open ones
// (Stage.low), and below the code's limit of open files, which is set later.
const (
	granteeFD = 62
	rulesetFD = 63
)

// calls returns calls that restrict the calling thread and its children to the granted paths. The host has chosen
// rights that this kernel supports; a handled right that is not granted is denied. The guest's other threads stay
// outside, so the scopes also keep the code from signaling the guest.
func (r *Ruleset) calls() []Call {
	if r.Handled|r.Scoped == 0 {
		return nil
	}
	attr := unix.LandlockRulesetAttr{Handled_access_fs: r.Handled, Scoped: r.Scoped}
	size := unsafe.Offsetof(attr.Quiet_access_fs)
	if r.Scoped == 0 {
		size = unsafe.Offsetof(attr.Handled_access_net) // size in the interface's first version
	}
	create := call(unix.SYS_LANDLOCK_CREATE_RULESET, bytesOf(&attr), size, 0)
	create.Keep = true
	calls := []Call{create, call(unix.SYS_DUP3, kept, rulesetFD, unix.O_CLOEXEC), call(unix.SYS_CLOSE, kept)}
	for _, g := range r.Grants {
		calls = append(calls, grantCalls(g)...)
	}
	return append(calls, call(unix.SYS_LANDLOCK_RESTRICT_SELF, rulesetFD, uintptr(r.Flags)),
		call(unix.SYS_CLOSE, rulesetFD))
}

// Rights that apply to files; the kernel refuses others on a file.
const fileRights = unix.LANDLOCK_ACCESS_FS_EXECUTE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
	unix.LANDLOCK_ACCESS_FS_READ_FILE |
	unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV

// grantCalls grants rights below one path, which may be missing, or a file. A file refuses rights that apply to folders
// (EINVAL), so file rights are granted first.
func grantCalls(g Access) []Call {
	rule := func(rights uint64) Call {
		beneath := unix.LandlockPathBeneathAttr{Allowed_access: rights, Parent_fd: granteeFD}
		return call(unix.SYS_LANDLOCK_ADD_RULE, rulesetFD, unix.LANDLOCK_RULE_PATH_BENEATH, bytesOf(&beneath), 0)
	}
	calls := []Call{call(unix.SYS_DUP3, kept, granteeFD, unix.O_CLOEXEC), call(unix.SYS_CLOSE, kept)}
	if onFile := g.Rights & fileRights; onFile != 0 {
		calls = append(calls, rule(onFile))
	}
	if g.Rights&^fileRights != 0 {
		whole := rule(g.Rights)
		whole.Pass = unix.EINVAL
		calls = append(calls, whole)
	}
	calls = append(calls, call(unix.SYS_CLOSE, granteeFD))
	const atCWD = ^uintptr(-unix.AT_FDCWD - 1)
	open := call(unix.SYS_OPENAT, atCWD, cstring(g.Path), unix.O_PATH|unix.O_CLOEXEC, 0)
	open.Keep, open.Pass, open.Skip = true, unix.ENOENT, len(calls)
	return append([]Call{open}, calls...)
}
