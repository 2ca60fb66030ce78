package native

import (
	"bufio"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/glovebox-dev/glovebox/internal/pidfd"
)

// Some things the kernel keeps for a program without a bound, and counts in no control group: locks of parts of files, 192 bytes each, a
// quarter of a million in a second (RLIMIT_LOCKS is not enforced any more: getrlimit(2)); TCP sockets that have no descriptor, as those
// that nobody has accepted and those that were closed with something to send, of which the whole host may have few
// (net.ipv4.tcp_max_orphans); and 2 KiB for each UDP socket with SO_REUSEPORT, of which a hundred processes have a hundred thousand.
// So each sandbox is looked at from outside, and the code of one that hoards is killed. So is code that is out of memory again and again:
// the kernel writes two pages about each kill to its log, which holds 128 KiB by default, and pushes all else out of it.
const (
	lookEvery   = 250 * time.Millisecond
	mostLocks   = 10_000
	mostSockets = 8192 // of TCP and of UDP each, both ends of a connection among them; those that wait for their time (TIME_WAIT) apart
	mostKills   = 100

	// Where a socket's queue of errors can hold copies of what was sent (kernelFacts.keepsCopies): TCP sockets, of which each may hold
	// 256 KiB then, and bytes in all queues of UDP.
	fewSockets = 1024
	mostQueued = 64 << 20
	quietUDP   = 64 // sockets, whose queues are not worth a look
)

// hoards looks at all boxes of a backend, as long as there are any.
type hoards struct {
	looking sync.WaitGroup

	mu    sync.Mutex // guards all below
	boxes map[*Box]bool
	stop  chan struct{} // nil where nobody looks

	copies bool // kernelFacts.keepsCopies
}

// watch looks at a box until its end.
func (h *hoards) watch(box *Box) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop == nil {
		stop := make(chan struct{})
		h.boxes, h.stop = map[*Box]bool{}, stop
		h.looking.Go(func() { h.look(stop) })
	}
	h.boxes[box] = true
}

// close ends the looking, when no more boxes are made. Those that live on are looked at by who takes them back.
func (h *hoards) close() {
	h.mu.Lock()
	if h.stop != nil {
		close(h.stop)
		h.stop = nil
	}
	h.mu.Unlock()
	h.looking.Wait()
}

func (h *hoards) look(stop chan struct{}) {
	ticker := time.NewTicker(lookEvery)
	defer ticker.Stop()
	for {
		select {
		case <-stop:
			return
		case <-ticker.C:
		}
		boxes := h.alive(stop)
		if len(boxes) == 0 {
			return
		}
		h.punish(boxes)
	}
}

// alive lists the boxes that have not ended, and forgets the others. With the last of them the looking ends.
func (h *hoards) alive(stop chan struct{}) (boxes []*Box) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop != stop {
		return nil // closed
	}
	for box := range h.boxes {
		if box.Alive() == nil {
			boxes = append(boxes, box)
		} else {
			delete(h.boxes, box)
		}
	}
	if len(boxes) == 0 {
		h.stop = nil
	}
	return boxes
}

// punish kills all processes of the sandboxes that hoard, but for their guests.
func (h *hoards) punish(boxes []*Box) {
	if box := hoarderOfLocks(boxes); box != nil {
		killBelow(box.Process.PID)
	}
	for _, box := range boxes {
		if guest := box.Process.PID; box.Group.OOMKills() > mostKills || h.hasSockets(guest) {
			killBelow(guest)
		}
	}
}

// hasSockets says whether a sandbox has too many sockets, or too much in their queues.
func (h *hoards) hasSockets(guest int) bool {
	tcp, udp := socketsOf(guest)
	if !h.copies {
		return max(tcp, udp) > mostSockets
	}
	return tcp > fewSockets || udp > mostSockets || udp > quietUDP && queuedUDP(guest) > mostQueued
}

// hoarderOfLocks finds a box with too many locks of parts of files (proc_locks(5)). It reads no further then: each page of the list costs the
// kernel a walk from its beginning, and who takes locks faster than they are read would be read for ever. The newest come first. Each
// has the process that took it, and that lives as long as the lock: the filter refuses to share descriptors with another process, and locks
// of open files, which have no process.
func hoarderOfLocks(boxes []*Box) *Box {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return nil
	}
	defer f.Close()
	boxOf, locks := map[int]*Box{}, map[*Box]int{}
	for lines := bufio.NewScanner(f); lines.Scan(); {
		// "1: POSIX  ADVISORY  WRITE 3548 08:01:2 0 EOF"; "->" behind the number is one that waits.
		fields := strings.Fields(strings.Replace(lines.Text(), "->", "", 1))
		if len(fields) < 5 || fields[1] != "POSIX" {
			continue
		}
		pid, _ := strconv.Atoi(fields[4])
		box, known := boxOf[pid]
		if !known {
			if at := slices.IndexFunc(boxes, func(box *Box) bool { return descends(pid, box.Process.PID) }); at >= 0 {
				box = boxes[at]
			}
			boxOf[pid] = box
		}
		if locks[box]++; box != nil && locks[box] > mostLocks {
			return box
		}
	}
	return nil
}

// socketsOf counts the TCP and the UDP sockets of a process's network namespace, with and without a descriptor.
func socketsOf(pid int) (tcp, udp int) {
	inUse := map[string]int{}
	for _, file := range []string{"sockstat", "sockstat6"} {
		text, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "net", file))
		if err != nil {
			continue
		}
		for line := range strings.Lines(string(text)) {
			var n int
			kind, counts, _ := strings.Cut(line, ":")
			if _, err := fmt.Sscanf(counts, " inuse %d", &n); err == nil {
				inUse[strings.TrimSuffix(kind, "6")] += n
			}
		}
	}
	return inUse["TCP"], inUse["UDP"]
}

// queuedUDP adds up what waits in the UDP sockets of a process's network namespace, errors and copies among it: rx_queue, in bytes.
func queuedUDP(pid int) (bytes int64) {
	for _, file := range []string{"udp", "udp6"} {
		f, err := os.Open(filepath.Join("/proc", itoa(pid), "net", file))
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			// "  sl  local_address rem_address st tx_queue:rx_queue ..." in hexadecimal (proc_pid_net(5))
			fields := strings.Fields(lines.Text())
			if len(fields) < 5 {
				continue
			}
			_, waiting, _ := strings.Cut(fields[4], ":")
			n, _ := strconv.ParseInt(waiting, 16, 64) // of the head line, nothing
			bytes += n
		}
		f.Close()
	}
	return bytes
}

// killBelow kills what descends from a guest.
func killBelow(guest int) {
	names, _ := os.ReadDir("/proc")
	for _, name := range names {
		pid, err := strconv.Atoi(name.Name())
		if err != nil || pid == guest {
			continue
		}
		p, err := pidfd.Open(pid)
		if err != nil {
			continue
		}
		if descends(pid, guest) { // asked after it was taken hold of: its number is no other's by now
			p.Kill()
		}
		p.Close()
	}
}

// maxDepth bounds the walk up from a process, should processes come and go during it.
const maxDepth = 10_000

// descends says whether a process comes from another. What a guest's children leave behind is the guest's own, so all code does.
func descends(pid, from int) bool {
	for range maxDepth {
		if pid == from {
			return true
		}
		if pid <= 1 {
			return false
		}
		pid = parentOf(pid)
	}
	return false
}

// seesHoards says why hoards cannot be seen here, or nil: a /proc that shows an ordinary user no process of other ids (hidepid), or masks.
func seesHoards() error {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return err
	}
	f.Close()
	_, err = os.ReadFile("/proc/1/stat")
	return err
}

// parentOf is 0 for a process that is gone.
func parentOf(pid int) int {
	text, err := os.ReadFile(filepath.Join("/proc", itoa(pid), "stat"))
	if err != nil {
		return 0
	}
	_, rest, _ := strings.Cut(string(text[strings.LastIndexByte(string(text), ')')+1:]), " ") // the name may hold anything
	fields := strings.Fields(rest)                                                            // state, parent (proc_pid_stat(5))
	if len(fields) < 2 {
		return 0
	}
	parent, _ := strconv.Atoi(fields[1])
	return parent
}
