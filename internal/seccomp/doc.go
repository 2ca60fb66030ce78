// Package seccomp holds the system call policy of the sandbox and compiles it to the classic BPF that seccomp(2) installs.
//
// The policy is a list of what is allowed; all else is refused with an error, never with a kill: programs probe for system
// calls and fall back, and a kill turns a harmless probe into a random crash. Only a foreign architecture kills, because there
// the numbers mean other calls.
//
// The order of answers is: wrong architecture, kill; the x32 numbers, ENOSYS; a number beyond the newest that the policy knows,
// ENOSYS, so that a C library falls back as it does on an older kernel; what glibc and libuv must see as absent (clone3,
// io_uring), ENOSYS; allowed, perhaps by its arguments; the rest, EPERM.
//
// Beside each group of calls stands what kernel memory it can hold that no control group counts.
//
// Arguments are compared in the width that the kernel uses (32 bits for int and unsigned int: CVE-2019-10063 was a 64-bit
// comparison of a 32-bit ioctl). Nothing that a pointer refers to is ever compared: it could change after the check.
package seccomp
