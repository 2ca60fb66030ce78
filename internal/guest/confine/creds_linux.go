package confine

import (
	"runtime"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// takeIdentity makes every thread the guest's user. The process was born with all capabilities of its own user namespace and with
// an id that is not mapped in it.
func takeIdentity(uid, gid uint32, setgroups bool) error {
	if setgroups {
		if err := syscall.Setgroups(nil); err != nil {
			return err
		}
	}
	if err := syscall.Setresgid(int(gid), int(gid), int(gid)); err != nil {
		return err
	}
	// With only id 1000 mapped the guest is not uid 0 of its namespace, and its capabilities survive the change because only a
	// change away from uid 0 clears them.
	if err := syscall.Setresuid(int(uid), int(uid), int(uid)); err != nil {
		return err
	}
	// Not dumpable: nothing of the same user can trace the guest or open its memory, environment or descriptors.
	return unix.Prctl(unix.PR_SET_DUMPABLE, 0, 0, 0, 0)
}

// capabilities sets the permitted and effective sets of every thread to keep, and clears the inheritable and ambient ones.
func capabilities(keep uint32) error {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	data := [2]unix.CapUserData{{Permitted: keep, Effective: keep}}
	_, _, errno := syscall.AllThreadsSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&data[0])), 0)
	if errno != 0 {
		return errno
	}
	return nil
}

// What the guest keeps where the code is another user: to become that user, and to signal its processes. All within the
// sandbox's own user namespace; over the host they mean nothing.
const guestCaps = 1<<unix.CAP_SETUID | 1<<unix.CAP_SETGID | 1<<unix.CAP_KILL | 1<<unix.CAP_SYS_RESOURCE

// confineSpawner prepares the calling thread, which must be locked to its goroutine, to be the one that starts the code's
// processes: they inherit an empty bounding set, securebits that no set-id program can use, and a session keyring of their own.
// It is done on one thread because every further one costs a signal and a wait for each of the 41 capabilities.
func confineSpawner() error {
	// A cgroup namespace has its root where its maker was. The guest was born in its server's group on v1, so the code gets a
	// namespace that is made now, and sees "/" rather than names of the host.
	if err := unix.Unshare(unix.CLONE_NEWCGROUP); err != nil {
		return err
	}
	// No name: an anonymous keyring that nobody else can join.
	_, _, errno := unix.Syscall(unix.SYS_KEYCTL, unix.KEYCTL_JOIN_SESSION_KEYRING, 0, 0)
	if errno != 0 && errno != unix.ENOSYS {
		return errno
	}
	for c := uintptr(0); ; c++ { // until the kernel says that it knows no further capability (EINVAL)
		err := unix.Prctl(unix.PR_CAPBSET_DROP, c, 0, 0, 0)
		if err == unix.EINVAL && c > unix.CAP_CHECKPOINT_RESTORE {
			break
		}
		if err != nil && !(err == unix.EINVAL && c > unix.CAP_AUDIT_READ) {
			return err
		}
	}
	// SECBIT_NO_SETUID_FIXUP must stay clear: it is by that fix-up that the capabilities go when a child becomes the code's user.
	const bits = secNoroot | secNorootLocked | secNoSetuidFixupLocked | secKeepCapsLocked | secNoAmbient | secNoAmbientLocked
	return unix.Prctl(unix.PR_SET_SECUREBITS, bits, 0, 0, 0)
}

// Bits of linux/securebits.h.
const (
	secNoroot              = 1 << 0
	secNorootLocked        = 1 << 1
	secNoSetuidFixupLocked = 1 << 3
	secKeepCapsLocked      = 1 << 5
	secNoAmbient           = 1 << 6
	secNoAmbientLocked     = 1 << 7
)

// noNewPrivs forbids the calling thread to gain privileges by executing a program. installSeccomp carries it to all threads.
func noNewPrivs() error { return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) }

// installSeccomp puts the program on every thread at once, and with it no_new_privs, which the calling thread must have (seccomp(2),
// SECCOMP_FILTER_FLAG_TSYNC).
func installSeccomp(program []byte) error {
	if len(program) == 0 || len(program)%8 != 0 {
		return unix.EINVAL
	}
	// A copy in memory that is aligned for what the kernel reads.
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
