// Package kernel reads the version of this host's kernel.
package kernel

import (
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// Version is the version of a kernel.
type Version struct {
	Release      string // as uname(2) reports it
	major, minor int
}

// Running returns the version of the running kernel. One that cannot be read is older than all.
func Running() Version {
	var v Version
	var u unix.Utsname
	if unix.Uname(&u) == nil {
		v.Release = unix.ByteSliceToString(u.Release[:])
	}
	parts := strings.FieldsFunc(v.Release, func(r rune) bool { return r < '0' || r > '9' })
	if len(parts) >= 2 {
		v.major, _ = strconv.Atoi(parts[0])
		v.minor, _ = strconv.Atoi(parts[1])
	}
	return v
}

// AtLeast reports whether the kernel is of a version or newer.
func (v Version) AtLeast(major, minor int) bool {
	return v.major > major || v.major == major && v.minor >= minor
}
