package native

import (
	"errors"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// uidsDir holds the claims of host user ids, a file each.
const uidsDir = "uids"

// Host user ids of sandboxes that root makes, from a range that no distribution hands out: systemd's "UIDs and GIDs on systemd
// systems" lists 1879048192 to 2147352575 as unused. A slot is two neighbouring ids, the guest's and the code's.
const (
	firstHostID = 1_879_048_192
	slotCount   = 65_536
	slotIDs     = 2
)

// slot is a pair of host ids held by one sandbox.
type slot struct {
	file  *os.File // its flock is the claim; the guest holds it too, so that it outlives a server that dies
	guest uint32
	code  uint32
}

func (s *slot) release() {
	if s != nil {
		s.file.Close()
	}
}

// takeSlot claims a pair of ids that no live sandbox on this host has. One file per slot, locked by flock(2), is the whole record:
// the kernel frees the claim when the last holder is gone, whatever it died of. The search starts at random, so that an id
// is not used again soon.
func takeSlot(dir string) (*slot, error) {
	start := rand.IntN(slotCount)
	for i := range slotCount {
		n := (start + i) % slotCount
		f, err := os.OpenFile(filepath.Join(dir, strconv.Itoa(n)), os.O_RDWR|os.O_CREATE, 0o600)
		if err != nil {
			return nil, err
		}
		err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
		if err == nil {
			base := uint32(firstHostID + n*slotIDs)
			return &slot{file: f, guest: base, code: base + 1}, nil
		}
		f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return nil, err
		}
	}
	return nil, &sandbox.Error{Kind: sandbox.Busy, Op: "native: take host ids", Msg: "all host user ids are in use"}
}
