package hostid

import (
	"bufio"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"
)

// Caller is this process's user, and its host ids for sandboxes.
type Caller struct {
	UID, GID    uint32
	Subordinate uint32 // the first of IDs consecutive user and group ids delegated to the caller; 0 is none
}

const (
	Unique      = "unique"      // a host id that no other live sandbox has
	Subordinate = "subordinate" // the caller's ids from /etc/subuid; its other sandboxes may use the same
	Shared      = "shared"      // the caller's own id
)

// ReadCaller identifies this process, and reads an ordinary user's usable subordinate ids.
func ReadCaller() Caller {
	c := Caller{UID: uint32(os.Geteuid()), GID: uint32(os.Getegid())}
	if c.UID == 0 {
		return c
	}
	for _, tool := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(tool); err != nil {
			return c
		}
	}
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	if first := firstSubordinate("/etc/subuid", name, c.UID); first == firstSubordinate("/etc/subgid", name, c.UID) {
		c.Subordinate = first
	}
	return c
}

// Owns reports whether a process with this host user id can be a guest of the caller.
func (c Caller) Owns(uid uint32) bool {
	return uid == c.UID || c.UID == 0 && IsGuest(uid) || c.Subordinate != 0 && uid >= c.Subordinate &&
		uid < c.Subordinate+IDs
}

// firstSubordinate returns the start of the user's first large enough range in a subuid(5) file, or 0.
func firstSubordinate(file, name string, uid uint32) uint32 {
	f, err := os.Open(file)
	if err != nil {
		return 0
	}
	defer f.Close()
	for s := bufio.NewScanner(f); s.Scan(); {
		parts := strings.Split(s.Text(), ":")
		if len(parts) != 3 || parts[0] != name && parts[0] != strconv.Itoa(int(uid)) {
			continue
		}
		first, err1 := strconv.ParseUint(parts[1], 10, 32)
		count, err2 := strconv.ParseUint(parts[2], 10, 32)
		if err1 == nil && err2 == nil && count >= IDs {
			return uint32(first)
		}
	}
	return 0
}
