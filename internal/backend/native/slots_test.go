package native

import (
	"path/filepath"
	"syscall"
	"testing"
)

func TestSlotsAreHeldUntilTheLastHolderIsGone(t *testing.T) {
	path := filepath.Join(t.TempDir(), slotsFile)
	taken := map[uint32]bool{}
	var held []*slot
	for range 200 {
		s, err := takeSlot(path)
		if err != nil {
			t.Fatal(err)
		}
		if taken[s.guest] || s.code != s.guest+1 || s.guest < firstHostID {
			t.Fatalf("%+v was handed out twice, or is none of ours", s)
		}
		taken[s.guest] = true
		held = append(held, s)
	}
	again := func(s *slot) error {
		other, err := takeSlot(path)
		if err != nil {
			t.Fatal(err)
		}
		defer other.release()
		n := int64(s.guest-firstHostID) / slotIDs
		return syscall.FcntlFlock(other.file.Fd(), 37 /* F_OFD_SETLK */, &syscall.Flock_t{Type: syscall.F_WRLCK, Start: n, Len: 1})
	}
	heir, err := syscall.Dup(int(held[0].file.Fd())) // as the guest inherits it
	if err != nil {
		t.Fatal(err)
	}
	held[0].release()
	if again(held[0]) == nil {
		t.Error("a claim was lost while a guest still held it")
	}
	syscall.Close(heir)
	if err := again(held[0]); err != nil {
		t.Errorf("a claim outlived its last holder: %v", err)
	}
	for _, s := range held[1:] {
		s.release()
	}
}
