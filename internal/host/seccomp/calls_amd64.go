package seccomp

import "golang.org/x/sys/unix"

const auditArch = unix.AUDIT_ARCH_X86_64

// x32Bit marks the calls of the x32 ABI, which alias the native ones under other numbers.
const x32Bit = 0x40000000

// newestCall is the highest call that this policy has considered.
const newestCall = unix.SYS_MSEAL

// allowedHere are the calls of this architecture only, mostly older variants.
var allowedHere = []int{
	unix.SYS_OPEN, unix.SYS_CREAT, unix.SYS_STAT, unix.SYS_LSTAT, unix.SYS_NEWFSTATAT, unix.SYS_ACCESS,
	unix.SYS_GETDENTS, unix.SYS_MKDIR, unix.SYS_RMDIR, unix.SYS_UNLINK, unix.SYS_RENAME, unix.SYS_LINK,
	unix.SYS_SYMLINK, unix.SYS_READLINK, unix.SYS_CHMOD, unix.SYS_CHOWN, unix.SYS_LCHOWN, unix.SYS_UTIME,
	unix.SYS_UTIMES, unix.SYS_FUTIMESAT, unix.SYS_PIPE, unix.SYS_DUP2, unix.SYS_POLL, unix.SYS_SELECT,
	unix.SYS_EPOLL_CREATE, unix.SYS_EPOLL_WAIT, unix.SYS_EVENTFD, unix.SYS_SIGNALFD, unix.SYS_INOTIFY_INIT,
	unix.SYS_FORK, unix.SYS_VFORK, unix.SYS_GETPGRP, unix.SYS_ALARM, unix.SYS_PAUSE, unix.SYS_TIME, unix.SYS_ARCH_PRCTL,
	unix.SYS_SET_THREAD_AREA, unix.SYS_GET_THREAD_AREA, unix.SYS_EPOLL_CTL_OLD, unix.SYS_EPOLL_WAIT_OLD,
}

func byArgumentHere(deviceNode []uint32) map[int][]Rule {
	return map[int][]Rule{unix.SYS_MKNOD: {{Arg: 1, Mask: unix.S_IFMT, Op: In, Values: deviceNode, Answer: eperm}}}
}

// setIDModesHere is the index of the mode argument, by call.
var setIDModesHere = map[int]int{
	unix.SYS_OPEN: 2, unix.SYS_CREAT: 1, unix.SYS_CHMOD: 1, unix.SYS_MKDIR: 1, unix.SYS_MKNOD: 1,
}
