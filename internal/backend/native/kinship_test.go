//go:build linux

package native

import (
	"slices"
	"strconv"
	"testing"
)

// TestKinship: however long a chain of processes is, each has its guest and is read a few times, not once for each
// descendant. A pid that another process got is not mistaken for the earlier process.
func TestKinship(t *testing.T) {
	const first, guest, count = 100, 50, 20_000
	parents, began, reads := map[int]int{guest: 1, 60: 1}, "1", 0
	for pid := first; pid < first+count; pid++ {
		parents[pid] = pid - 1
	}
	parents[first] = guest
	k := newKinship(guest)
	k.stat = func(pid int) []string {
		reads++
		fields := slices.Repeat([]string{began}, 30)
		fields[1] = strconv.Itoa(parents[pid])
		return fields
	}
	for pid := first + count - 1; pid >= first; pid-- {
		if k.guestOf(pid) != guest {
			t.Fatalf("process %d has another guest", pid)
		}
	}
	if reads > 3*count {
		t.Errorf("%d reads for %d processes", reads, count)
	}
	if k.guestOf(60) != 0 || k.guestOf(guest) != guest {
		t.Error("another process descends from the guest, or the guest does not")
	}
	began, parents[first] = "2", 1
	if k.guestOf(first+1) != 0 {
		t.Error("a process with the pid of an earlier one is taken for it")
	}
	k.stat = func(int) []string { return nil }
	if k.guestOf(first+2) != 0 {
		t.Error("a process that has ended has a guest")
	}
}
