package native

import (
	"strconv"

	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
)

// kinship finds out from which guests processes descend. A guest adopts orphans, so all its code does. It remembers the
// processes on the way up: code can make thousands of processes, each a child of the last.
type kinship struct {
	guests map[int]bool
	known  map[int]kin
	stat   func(pid int) []string // pidfd.Stat
}

// kin is what is known of a process.
type kin struct {
	started string // when; a pid may be another process's by now
	guest   int    // 0 is none
}

func newKinship(guests ...int) *kinship {
	k := &kinship{guests: map[int]bool{}, known: map[int]kin{}, stat: pidfd.Stat}
	for _, guest := range guests {
		k.guests[guest] = true
	}
	return k
}

// maxDepth bounds the walk up from a process while processes come and go.
const maxDepth = 10_000

// guestOf returns the guest from which a process descends, or 0.
func (k *kinship) guestOf(pid int) (guest int) {
	const parent, started = 1, 19 // fields of proc_pid_stat(5)
	way := map[int]string{}
	for range maxDepth {
		if pid <= 1 || k.guests[pid] {
			guest = max(pid, 1)
			break
		}
		fields := k.stat(pid)
		if len(fields) <= started {
			return 0 // it has ended
		}
		if known, ok := k.known[pid]; ok && known.started == fields[started] {
			guest = known.guest
			break
		}
		way[pid] = fields[started]
		pid, _ = strconv.Atoi(fields[parent])
	}
	if !k.guests[guest] {
		guest = 0
	}
	for pid, started := range way {
		k.known[pid] = kin{started, guest}
	}
	return guest
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}
