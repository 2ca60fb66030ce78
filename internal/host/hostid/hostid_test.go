package hostid

import (
	"path/filepath"
	"syscall"
	"testing"
)

func TestPairsAreHeldUntilTheLastHolderIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	taken := map[uint32]bool{}
	var held []*Pair
	for range 200 {
		s, err := Take(path)
		if err != nil {
			t.Fatal(err)
		}
		if taken[s.Guest] || s.Code != s.Guest+1 || s.Guest < firstHostID {
			t.Fatalf("%+v was taken twice, or is out of range", s)
		}
		taken[s.Guest] = true
		held = append(held, s)
	}
	again := func(s *Pair) error {
		other, err := Take(path)
		if err != nil {
			t.Fatal(err)
		}
		defer other.Release()
		n := int64(s.Guest-firstHostID) / IDs
		return syscall.FcntlFlock(other.file.Fd(), 37 /* F_OFD_SETLK */, &syscall.Flock_t{Type: syscall.F_WRLCK,
			Start: n,
			Len:   1})
	}
	heir, err := syscall.Dup(int(held[0].file.Fd())) // as the guest inherits it
	if err != nil {
		t.Fatal(err)
	}
	held[0].Release()
	if again(held[0]) == nil {
		t.Error("a claim was lost while a guest still held it")
	}
	syscall.Close(heir)
	if err := again(held[0]); err != nil {
		t.Errorf("a claim outlived its last holder: %v", err)
	}
	for _, s := range held[1:] {
		s.Release()
	}
}

// TestRanges: builders have ranges of ids that no pair has, each with a guest that the code never is.
func TestRanges(t *testing.T) {
	path := filepath.Join(t.TempDir(), File)
	pair, err := Take(path)
	if err != nil {
		t.Fatal(err)
	}
	defer pair.Release()
	last := uint32(0)
	for range 3 {
		r, err := TakeRange(path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Release()
		if r.Guest != r.Code+RangeIDs || !IsGuest(r.Guest) || IsGuest(r.Code) || IsGuest(r.Code+RangeIDs-1) ||
			r.Code < firstRange || r.Code == last {
			t.Errorf("%+v after one from %d", r, last)
		}
		last = r.Code
	}
	if end := uint64(firstRange) + rangeCount*rangeSize; end > 2_147_352_576 {
		t.Errorf("the ranges end at %d, which others may have", end)
	}
}
