package native

import (
	"strconv"

	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
)

// kinship finds the guests from which processes descend. A guest adopts orphans, so all its code descends from it. It
// remembers the ancestors of a process: code can make thousands of processes, each a child of the last.
type kinship struct {
	guests map[int]bool
	known  map[int]kin
	stat   func(pid int) []string // pidfd.Stat
}

// kin describes a known process.
type kin struct {
	started string // its start time: another process may have its pid by now
	guest   int    // 0 is none
}

func newKinship(guests ...int) *kinship {
	k := &kinship{guests: map[int]bool{}, known: map[int]kin{}, stat: pidfd.Stat}
	for _, guest := range guests {
		k.guests[guest] = true
	}
	return k
}

// guestOf returns the guest from which a process descends, or 0.
func (k *kinship) guestOf(pid int) (guest int) {
	const parent, started = 1, 19 // fields of proc_pid_stat(5)
	ancestors := map[int]string{} // with their start times
	for pid > 1 {
		if k.guests[pid] {
			guest = pid
			break
		}
		fields := k.stat(pid)
		if _, again := ancestors[pid]; again || len(fields) <= started {
			return 0 // it has ended, or pids were reused meanwhile
		}
		if known, ok := k.known[pid]; ok && known.started == fields[started] {
			guest = known.guest
			break
		}
		ancestors[pid] = fields[started]
		pid, _ = strconv.Atoi(fields[parent])
	}
	for pid, started := range ancestors {
		k.known[pid] = kin{started, guest}
	}
	return guest
}
