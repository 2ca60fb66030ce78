package image

import (
	"fmt"
	"math"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/room"
	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ownerShare is the divisor of Store.Space for the layers of one API key.
const ownerShare = 2

// making counts the layers that are being made.
type making struct {
	turns *room.Room // one layer of an owner at a time, so that a key takes one CPU of the server

	mu    sync.Mutex // guards all below, and is held while others look for space
	space int64      // that layers hold until they are published
}

func newMaking() making { return making{turns: room.New(math.MaxInt64, 1)} }

// layerSpace is the space of one layer that is being made.
type layerSpace struct {
	store *Store
	owner string
	held  int64
}

// reserve reserves at least some bytes, in steps, so that owners make layers in parallel. The error is Quota where the
// owner, or all owners, have no more space.
func (l *layerSpace) reserve(bytes int64) (more int64, err error) {
	in := &l.store.making
	in.mu.Lock()
	defer in.mu.Unlock()
	images, err := l.store.List()
	if err != nil {
		return 0, err
	}
	left, full, err := l.store.left(images, l.owner, l.held)
	if err != nil {
		return 0, err
	}
	if more = max(bytes, min(reserveStep, l.store.Space/64)); more > left {
		more = bytes
	}
	if more > left {
		return 0, full
	}
	l.held += more
	in.space += more
	return more, nil
}

// open gives an unpacker the space of its layer, besides some bytes.
func (l *layerSpace) open(u *unpacker, besides int64) (err error) {
	if l.store.Space == 0 {
		return nil
	}
	u.reserve = l.reserve
	u.room, err = l.reserve(besides)
	u.room -= besides
	return err
}

// release ends the reservations: the layer was published, or discarded.
func (l *layerSpace) release() {
	in := &l.store.making
	in.mu.Lock()
	defer in.mu.Unlock()
	in.space -= l.held
}

// left returns the space for layers and records of an owner beside all images, and the error of one that needs more.
// The owner's own layer holds some. The caller holds the lock of making.
func (s *Store) left(images []Image, owner string, held int64) (bytes int64, full, err error) {
	left, own := s.Space-s.making.space, s.Space/ownerShare-held
	err = s.eachCost(s.knownCost, func(_ string, c treeCost) {
		if !c.built {
			return
		}
		left -= c.own
		if c.owner == owner {
			own -= c.own
		}
	})
	if err != nil {
		return 0, nil, err
	}
	for _, i := range images {
		if i.Built {
			left -= i.recordBytes
		}
		if i.Built && i.Owner == owner {
			own -= i.recordBytes
		}
	}
	if owner != "" && own < left {
		return own, overSpace("the templates of one API key", s.Space/ownerShare), nil
	}
	return left, overSpace("all templates", s.Space), nil
}

func overSpace(which string, most int64) error {
	return quota(which + " may take " + sandbox.FormatBytes(most) + " on this server")
}

func quota(msg string) error {
	return &sandbox.Error{Kind: sandbox.Quota, Op: "templates", Msg: msg,
		Fix: "remove some on the server: fumehood image rm"}
}

// checkSpace checks that there is room for a template with a record of some bytes.
func (s *Store) checkSpace(full, owner string, bytes int64) error {
	if s.Space == 0 {
		return nil
	}
	images, err := s.List()
	if err != nil {
		return err
	}
	templates := 0
	for _, i := range images {
		if i.Built && i.Owner == owner && i.Name != full {
			templates++
		}
	}
	if templates >= s.Limits.Templates {
		return quota(fmt.Sprintf("you have the %d that this server allows", templates))
	}
	s.making.mu.Lock()
	defer s.making.mu.Unlock()
	left, noRoom, err := s.left(images, owner, 0)
	if err == nil && trees.SizeOnDisk(bytes) > left {
		err = noRoom
	}
	return err
}
