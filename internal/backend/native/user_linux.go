package native

import (
	"bufio"
	"os"
	"os/exec"
	"os/user"
	"strconv"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func itoa(n int) string { return strconv.Itoa(n) }

// userFacts are what the ids of sandboxes can be made of here.
type userFacts struct {
	uid, gid     uint32
	subordinate  []idRange // of uids, from /etc/subuid; empty where they cannot be used
	subordinateG []idRange
}

type idRange struct{ first, count uint32 }

// The values of Policy.HostUID.
const (
	hostUnique      = "unique"      // a host id that no other live sandbox has
	hostSubordinate = "subordinate" // ids of the caller's from /etc/subuid; those of other sandboxes of the caller may be the same
	hostShared      = "shared"      // the caller's own id
)

func readUser() userFacts {
	f := userFacts{uid: uint32(os.Geteuid()), gid: uint32(os.Getegid())}
	if f.uid == 0 {
		return f
	}
	for _, tool := range []string{"newuidmap", "newgidmap"} {
		if _, err := exec.LookPath(tool); err != nil {
			return f
		}
	}
	name := ""
	if u, err := user.Current(); err == nil {
		name = u.Username
	}
	f.subordinate = readSubordinate("/etc/subuid", name, f.uid)
	f.subordinateG = readSubordinate("/etc/subgid", name, f.uid)
	if len(f.subordinate) == 0 || len(f.subordinateG) == 0 {
		f.subordinate, f.subordinateG = nil, nil
	}
	return f
}

// readSubordinate reads the ranges of a user from a file of subuid(5) format.
func readSubordinate(file, name string, uid uint32) []idRange {
	f, err := os.Open(file)
	if err != nil {
		return nil
	}
	defer f.Close()
	var ranges []idRange
	for s := bufio.NewScanner(f); s.Scan(); {
		parts := strings.Split(s.Text(), ":")
		if len(parts) != 3 || parts[0] != name && parts[0] != strconv.Itoa(int(uid)) {
			continue
		}
		first, err1 := strconv.ParseUint(parts[1], 10, 32)
		count, err2 := strconv.ParseUint(parts[2], 10, 32)
		if err1 == nil && err2 == nil && count >= hostid.IDs {
			ranges = append(ranges, idRange{uint32(first), uint32(count)})
		}
	}
	return ranges
}

// chooseIDs maps the ids of one sandbox. Root gives it ids of its own; an ordinary user gives it subordinate ids where there are
// some, but for a host directory as workspace, which must see the caller's own id.
func (b *Backend) chooseIDs(spec *sandbox.Spec, s *hostid.Pair) (ids, string) {
	code := spec.User
	guest := sandbox.User{UID: 0, GID: 0}
	switch {
	case s != nil:
		return ids{guest: guest, code: code, lines: []idLine{{0, s.Guest}, {code.UID, s.Code}}}, hostUnique
	case len(b.user.subordinate) > 0 && b.user.subordinate[0] == b.user.subordinateG[0] && spec.Workdir == "" && !anyWritable(spec.Mounts):
		first := b.user.subordinate[0].first
		return ids{guest: guest, code: code, bySetuid: true, lines: []idLine{{0, first}, {code.UID, first + 1}}}, hostSubordinate
	}
	return ids{guest: code, code: code, lines: []idLine{{code.UID, b.user.uid}}}, hostShared
}

func anyWritable(mounts []sandbox.Mount) bool {
	for _, m := range mounts {
		if m.Writable {
			return true
		}
	}
	return false
}
