package egress

import (
	"time"

	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
)

// unread checks what passes unread where names matter.
type unread struct {
	watches  bool // the connection passes unread from its first byte, without TLS
	disguise sniff.Disguise
	retry    *sniff.Retry // of a TLS hello whose name was checked
}

// checkUnread refuses requests in what passes unread without TLS, and a second hello for another name. Where names do
// not matter yet, the name of such a connection is unknown: new rules that deny names end it.
func (i *inspector) checkUnread(b []byte) error {
	i.mu.Lock()
	var err error
	switch u := &i.unread; {
	case u.watches:
		err = u.disguise.Client(b)
		i.charge(&u.disguise.Parsed)
	case u.retry != nil:
		err = u.retry.Client(b)
		i.c.gate.meter.pace.spend(time.Duration(u.retry.Parsed) * scanTime)
		u.retry.Parsed = 0
	}
	if err != nil {
		i.unread.retry = nil
	}
	i.mu.Unlock()
	if err == nil {
		return nil
	}
	if !i.enforces {
		i.setName("") // the server may take another one
	}
	return i.object(err)
}

// server follows the answers. HTTP in answer to what passed unread is an error.
func (u *unread) server(b []byte) error {
	if u.retry != nil {
		u.retry.Server(b)
	}
	if err := u.disguise.Server(b); u.watches {
		return err
	}
	return nil
}
