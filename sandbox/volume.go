package sandbox

import (
	"slices"
	"strings"
	"time"
)

// Volume is storage that a sandbox shows at a path besides its own. Exactly one of Name, HostDir and Bytes is set.
type Volume struct {
	Name     string // a named volume of the sandbox's owner; it outlives the sandbox
	HostDir  string // a directory of this host, by its absolute path without links
	Bytes    int64  // a file system in memory of this size, which counts against the memory limit
	Path     string // absolute path in the sandbox
	ReadOnly bool
}

// VolumeRequest requests a named volume.
type VolumeRequest struct {
	Owner  string // over HTTP, the name of the API key; "" is no one's
	Name   string // unique among the owner's
	Bytes  int64  // size of its file system with its own structures, in bytes; 0 is the default
	Inodes int64  // most files and folders; 0 is one for each 16 KiB of Bytes
	// AllowUnenforced may name disk and inodes. The host need not enforce those.
	AllowUnenforced []string
}

// NamedVolume describes a named volume.
type NamedVolume struct {
	Name      string
	Owner     string
	Bytes     int64 // as requested
	Inodes    int64
	UsedBytes int64  // on the host's disk; -1 is unknown
	Enforcer  string // what bounds its bytes and inodes; "" is nothing
	Created   time.Time
	Users     []VolumeUser
}

// VolumeUser is a sandbox that uses a named volume.
type VolumeUser struct {
	Sandbox  ID
	ReadOnly bool
}

// HeldVolume is a named volume that a new sandbox uses.
type HeldVolume struct {
	Mount Mount // without target
	// Release frees what the call to Hold opened. The volume stays in use until the sandbox has ended.
	Release func()
}

// CheckVolumeName returns an Invalid error for a text that cannot name a volume.
func CheckVolumeName(name string) error {
	const ends = "abcdefghijklmnopqrstuvwxyz0123456789" // no regexp: the guest links this package
	if n := len(name); n > 0 && n <= 63 && strings.Trim(name, ends+"._-") == "" &&
		strings.ContainsRune(ends, rune(name[0])) && strings.ContainsRune(ends, rune(name[n-1])) {
		return nil
	}
	return Invalidf("volume", "%.80q is not 1 to 63 of a-z, 0-9 and ._- with a letter or digit at both ends", name)
}

// MemoryVolumes returns the volumes of a spec that are file systems in memory.
func (s *Spec) MemoryVolumes() []Volume {
	return slices.DeleteFunc(slices.Clone(s.Volumes), func(v Volume) bool { return v.Bytes == 0 })
}

// NamedVolumes returns the named volumes of a spec.
func (s *Spec) NamedVolumes() []Volume {
	return slices.DeleteFunc(slices.Clone(s.Volumes), func(v Volume) bool { return v.Name == "" })
}
