package confine

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// takeIdentity makes every thread the guest's user. The process has all capabilities of its own user namespace and an
// id that is not mapped there.
func takeIdentity(uid, gid uint32, setgroups bool) error {
	if setgroups {
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
	}
	if err := syscall.Setresgid(int(gid), int(gid), int(gid)); err != nil {
		return err
	}
	// With only id 1000 mapped, the guest is not uid 0 of its namespace. Its capabilities survive, because only a
	// change away from uid 0 clears them.
	return syscall.Setresuid(int(uid), int(uid), int(uid))
}

// isIdentity reports whether this process was spawned as the guest's user, with no other group. Its threads are the
// same.
func isIdentity(uid, gid uint32) bool {
	u, g := int(uid), int(gid)
	r, e, s := unix.Getresuid()
	rg, eg, sg := unix.Getresgid()
	groups, err := unix.Getgroups()
	return r == u && e == u && s == u && rg == g && eg == g && sg == g && len(groups) == 0 && err == nil
}

// capabilities sets every thread's permitted and effective sets to keep, and clears the inheritable and ambient ones.
func capabilities(keep uint32) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Permitted: keep, Effective: keep}}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)),
		uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// permitted are the first 32 capabilities of this thread; the guest never needs the others.
func permitted() uint32 {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	if err := unix.Capget(&header, &data[0]); err != nil {
		return 0
	}
	return data[0].Permitted
}

// The guest's capabilities if the code is another user: to become that user, and to signal its processes. They apply
// only within the sandbox's user namespace, not to the host.
const guestCaps = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL | 1<<unix.CAP_SYS_RESOURCE

// The capabilities of a builder's root, by which package managers give files and processes to other users. They apply
// only within the sandbox's user namespace: to the ids that are mapped there.
const builderCaps = 1<<unix.CAP_CHOWN | 1<<unix.CAP_DAC_OVERRIDE | 1<<unix.CAP_FOWNER | 1<<unix.CAP_SETUID |
	1<<unix.CAP_SETGID | 1<<unix.CAP_KILL

// noNewPrivs forbids the calling thread to gain privileges by executing a program. installSeccomp applies it to all
// threads.
func noNewPrivs() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// installSeccomp installs the program on every thread at once, together with no_new_privs, which the calling thread
// must have (seccomp(2), SECCOMP_FILTER_FLAG_TSYNC).
func installSeccomp(program []byte) error {
	if len(program) == 0 || len(program)%8 != 0 {
		return unix.EINVAL
	}
	// A copy with the alignment that the kernel needs.
	filter := make([]unix.SockFilter, len(program)/8)
	copy(unsafe.Slice((*byte)(unsafe.Pointer(&filter[0])), len(program)), program)
	fprog := unix.SockFprog{Len: uint16(len(filter)), Filter: &filter[0]}
	r, _, errno := unix.RawSyscall(unix.SYS_SECCOMP, unix.SECCOMP_SET_MODE_FILTER, unix.SECCOMP_FILTER_FLAG_TSYNC,
		uintptr(unsafe.Pointer(&fprog)))
	runtime.KeepAlive(filter)
	if errno != 0 {
		return errno
	}
	if r != 0 { // the id of a thread that could not be synchronised
		return unix.ESRCH
	}
	return nil
}
