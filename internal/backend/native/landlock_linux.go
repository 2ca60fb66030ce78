package native

import (
	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
)

const (
	accessRead = unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_READ_DIR
	accessExec = unix.LANDLOCK_ACCESS_FS_EXECUTE

	// The thirteen rights of the first version (Linux 5.13), then those that each later version added.
	accessFirst = 1<<13 - 1
)

// ruleset is everything that this kernel's Landlock can deny. The kernel refuses unknown bits.
func (k kernelFacts) ruleset() (r confine.Ruleset) {
	if k.landlock < 1 {
		return r
	}
	r.Handled = accessFirst
	if k.landlock >= 2 {
		r.Handled |= unix.LANDLOCK_ACCESS_FS_REFER
	}
	if k.landlock >= 3 {
		r.Handled |= unix.LANDLOCK_ACCESS_FS_TRUNCATE
	}
	if k.landlock >= 5 {
		r.Handled |= unix.LANDLOCK_ACCESS_FS_IOCTL_DEV
	}
	if k.landlock >= 6 {
		r.Scoped = unix.LANDLOCK_SCOPE_ABSTRACT_UNIX_SOCKET | unix.LANDLOCK_SCOPE_SIGNAL
	}
	if k.landlock >= 7 {
		// Do not log refusals to a fork that executes no program: the code could fill the host's audit log.
		r.Flags = unix.LANDLOCK_RESTRICT_SELF_LOG_SAME_EXEC_OFF
	}
	return r
}

// grants returns the granted rights: read and execute everything, write to the writable places, use harmless devices.
// With a list of commands, only those files may be executed.
func grants(handled uint64, writable, commands []string) []confine.Access {
	if handled == 0 {
		return nil
	}
	everywhere := uint64(accessRead | accessExec)
	if commands != nil {
		everywhere = accessRead
	}
	inWritable := handled &^ (unix.LANDLOCK_ACCESS_FS_MAKE_CHAR | unix.LANDLOCK_ACCESS_FS_MAKE_BLOCK |
		unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	if commands != nil {
		inWritable &^= accessExec
	}
	device := handled & (unix.LANDLOCK_ACCESS_FS_READ_FILE | unix.LANDLOCK_ACCESS_FS_WRITE_FILE |
		unix.LANDLOCK_ACCESS_FS_TRUNCATE | unix.LANDLOCK_ACCESS_FS_IOCTL_DEV)
	list := []confine.Access{{Path: "/", Rights: everywhere}}
	for _, d := range []string{"/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom", "/dev/tty"} {
		list = append(list, confine.Access{Path: d, Rights: device})
	}
	list = append(list, confine.Access{Path: "/dev/pts", Rights: device | unix.LANDLOCK_ACCESS_FS_READ_DIR})
	for _, w := range writable {
		list = append(list, confine.Access{Path: w, Rights: inWritable})
	}
	for _, c := range commands {
		list = append(list, confine.Access{Path: c, Rights: accessExec})
	}
	return list
}
