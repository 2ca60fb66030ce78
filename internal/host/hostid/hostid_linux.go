// Package hostid gives each sandbox user ids of the host that no other live sandbox has.
package hostid

import (
	"errors"
	"math/rand/v2"
	"os"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// File is the empty file whose byte locks claim host user ids: byte n is slot n.
const File = "host-ids"

// Host user ids for the sandboxes of root, from a range that no distribution assigns: systemd's "UIDs and GIDs on
// systemd systems" lists 1879048192 to 2147352575 as unused. A slot is two consecutive ids, the guest's and the code's.
const (
	firstHostID = 1_879_048_192
	slotCount   = 65_536
	IDs         = 2
)

// Host user ids for builders, after those of pairs: a range has RangeIDs ids of the code and one of the guest.
const (
	RangeIDs   = 65_536
	firstRange = firstHostID + slotCount*IDs
	rangeCount = 1024
	rangeSize  = RangeIDs + 1
)

// Pair is the host ids held by one sandbox.
type Pair struct {
	file  *os.File // its lock is the claim; the guest holds it too, so the claim survives the server
	Guest uint32
	Code  uint32 // of a builder, the first of RangeIDs ids
}

// IsGuest reports whether an id belongs to a guest; code never runs as it.
func IsGuest(id uint32) bool {
	return id >= firstHostID && id < firstRange && (id-firstHostID)%IDs == 0 ||
		id >= firstRange && id < firstRange+rangeCount*rangeSize && (id-firstRange)%rangeSize == RangeIDs
}

// Release drops this process's hold. A process that inherited FD keeps the claim.
func (p *Pair) Release() {
	if p != nil {
		p.file.Close()
	}
}

// FD returns the claim's descriptor. A process that inherits it holds the claim too.
func (p *Pair) FD() int { return int(p.file.Fd()) }

// Take claims a pair of ids that no live sandbox on this host has. A claim is an open file description lock (fcntl(2)),
// which the kernel frees with its last holder. The search starts at random, so ids are not reused soon.
func Take(path string) (*Pair, error) {
	p, n, err := take(path, 0, slotCount)
	if err == nil {
		p.Guest = uint32(firstHostID + n*IDs)
		p.Code = p.Guest + 1
	}
	return p, err
}

// TakeRange claims the ids of a builder, as Take does.
func TakeRange(path string) (*Pair, error) {
	p, n, err := take(path, slotCount, rangeCount)
	if err == nil {
		p.Code = uint32(firstRange + n*rangeSize)
		p.Guest = p.Code + RangeIDs
	}
	return p, err
}

// take locks one of count bytes of the file, from first on, and returns its number.
func take(path string, first, count int) (*Pair, int, error) {
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|unix.O_NOFOLLOW, 0o600)
	if err != nil {
		return nil, 0, err
	}
	start := rand.IntN(count)
	for i := range count {
		n := (start + i) % count
		err = unix.FcntlFlock(f.Fd(), unix.F_OFD_SETLK,
			&unix.Flock_t{Type: unix.F_WRLCK, Start: int64(first + n), Len: 1})
		if err == nil {
			return &Pair{file: f}, n, nil
		}
		if !errors.Is(err, unix.EAGAIN) && !errors.Is(err, unix.EACCES) {
			return nil, 0, errors.Join(err, f.Close())
		}
	}
	f.Close()
	return nil, 0, &sandbox.Error{Kind: sandbox.Busy, Op: "take host ids", Msg: "all host user ids are in use"}
}
