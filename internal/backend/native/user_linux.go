package native

import (
	"strconv"

	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func itoa(n int) string { return strconv.Itoa(n) }

// ids says who is who inside a sandbox, and how that maps to the host.
type ids struct {
	guest, code sandbox.User // inside
	hostid.Map
}

// chooseIDs maps the ids of one sandbox. Root gives it ids of its own; an ordinary user gives it subordinate ids where there are
// some, but for a host directory as workspace, which must see the caller's own id.
func (b *Backend) chooseIDs(spec *sandbox.Spec, s *hostid.Pair) (ids, string) {
	code := spec.User
	guest := sandbox.User{UID: 0, GID: 0}
	switch {
	case s != nil:
		return ids{guest, code, hostid.Map{Lines: []hostid.Line{{Inside: 0, Host: s.Guest}, {Inside: code.UID, Host: s.Code}}}}, hostid.Unique
	case b.user.Subordinate != 0 && !spec.HostWritable():
		first := b.user.Subordinate
		return ids{guest, code, hostid.Map{BySetuid: true, Lines: []hostid.Line{{Inside: 0, Host: first}, {Inside: code.UID, Host: first + 1}}}}, hostid.Subordinate
	}
	return ids{code, code, hostid.Map{Lines: []hostid.Line{{Inside: code.UID, Host: b.user.UID}}}}, hostid.Shared
}
