package native

import (
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ids are the users inside a sandbox and their host ids.
type ids struct {
	guest, code sandbox.User // inside
	hostid.Map
}

// chooseIDs maps the ids of one sandbox: unique ids as root; otherwise subordinate ids, if any, unless a host directory
// is writable, which needs the caller's own id.
func (b *Backend) chooseIDs(spec *sandbox.Spec, s *hostid.Pair) (ids, string) {
	code := spec.User
	guest := sandbox.User{UID: 0, GID: 0}
	switch {
	case s != nil:
		return ids{guest, code, hostid.Map{Lines: []hostid.Line{{Inside: 0, Host: s.Guest},
			{Inside: code.UID, Host: s.Code}}}}, hostid.Unique
	case b.user.Subordinate != 0 && !spec.HostWritable():
		first := b.user.Subordinate
		return ids{guest, code, hostid.Map{BySetuid: true, Lines: []hostid.Line{{Inside: 0, Host: first},
			{Inside: code.UID, Host: first + 1}}}}, hostid.Subordinate
	}
	return ids{code, code, hostid.Map{Lines: []hostid.Line{{Inside: code.UID, Host: b.user.UID}}}}, hostid.Shared
}
