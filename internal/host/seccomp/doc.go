// Package seccomp holds the sandbox's system call policy and compiles it to the classic BPF that seccomp(2) installs.
//
// The policy lists the allowed calls. It refuses all others with an error, not a kill: programs probe for system calls
// and fall back, and a kill turns a harmless probe into a random crash. Only a foreign architecture is killed, because
// there the numbers mean other calls.
//
// Answers, in order: wrong architecture, kill; x32 numbers, ENOSYS; a number beyond the newest that the policy knows,
// ENOSYS, so that a C library falls back as on an older kernel; calls that must be absent for glibc and libuv (clone3,
// io_uring), ENOSYS; allowed, perhaps depending on arguments; the rest, EPERM.
//
// Each group of calls documents the kernel memory that it can hold outside any control group.
//
// Arguments are compared in the kernel's width (32 bits for int and unsigned int: CVE-2019-10063 was a 64-bit
// comparison of a 32-bit ioctl). Memory behind pointers is never compared: it could change after the check.
package seccomp
