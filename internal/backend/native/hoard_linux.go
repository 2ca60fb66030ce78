package native

import (
	"bufio"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
)

// The kernel keeps some objects of a program without a limit and counts them in no control group: locks on parts of
// files, 192 bytes each, 250,000 in a second (RLIMIT_LOCKS is no longer enforced: getrlimit(2)); TCP sockets without a
// descriptor, not yet accepted or closed with unsent data, of which the whole host may have few
// (net.ipv4.tcp_max_orphans); and 2 KiB for each UDP socket with SO_REUSEPORT. So the backend watches every sandbox
// from outside, and kills code that hoards. It also kills code that runs out of memory repeatedly: each kill writes two
// pages to the kernel's log of 128 KiB.
const (
	lookEvery = 250 * time.Millisecond
	mostLocks = 2000
	// While there are more locks, each sandbox may only have so many that all have no more: the kernel walks its
	// list from the beginning for each page that is read, some 100 ms for so many and half a minute for ten times
	// as many.
	allLocks   = 20_000
	leastLocks = 64 // that each may have in any case
	// Reading the list blocks lockers, so a look may take one part in lookShare of the time. But the next look starts
	// within lookMost, in which a sandbox takes some 100 MB of locks.
	lookShare = 20
	lookMost  = 2 * time.Second

	mostSockets = 8192 // of TCP and of UDP each, including both ends of a connection, without those in TIME_WAIT
	mostKills   = 100
	killsWindow = time.Minute // in which the kills of a living sandbox count

	// If a socket's error queue can hold copies of sent data (kernelFacts.keepsCopies): TCP sockets, each of which may
	// then hold 256 KiB, and bytes in all UDP queues.
	fewSockets = 1024
	mostQueued = 64 << 20
	quietUDP   = 64 // sockets, whose queues are not checked
)

// hoards watches all boxes of a backend, as long as there are any.
type hoards struct {
	looking sync.WaitGroup

	copies bool // kernelFacts.keepsCopies

	mu    sync.Mutex // guards all below
	boxes map[*Box]*kills
	stop  chan struct{} // nil while no goroutine looks
}

// watch watches a box until its end.
func (h *hoards) watch(box *Box) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.stop == nil {
		stop := make(chan struct{})
		h.boxes, h.stop = map[*Box]*kills{}, stop
		h.looking.Go(func() { h.look(stop) })
	}
	h.boxes[box] = &kills{}
}

// kills counts a sandbox's kills when its window began. Only look uses it.
type kills struct {
	from  int64
	began time.Time
}

// tooMany judges the total of kills since the sandbox began. All kills of a one-shot sandbox belong to its one
// execution.
func (k *kills) tooMany(total int64, living bool, now time.Time) bool {
	if living && now.Sub(k.began) >= killsWindow {
		k.from, k.began = total, now
	}
	return total-k.from > mostKills
}

// close stops watching. A server that reattaches living boxes watches them.
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
	wait := time.NewTimer(lookEvery)
	defer wait.Stop()
	for {
		select {
		case <-stop:
			return
		case <-wait.C:
		}
		boxes := h.alive(stop)
		if len(boxes) == 0 {
			return
		}
		started := time.Now()
		h.punish(boxes, stop)
		wait.Reset(min(max(lookEvery, lookShare*time.Since(started)), lookMost))
	}
}

// alive returns the boxes that have not ended and forgets the others. With the last box, watching ends.
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

// punish kills all processes of the sandboxes that hoard, except their guests.
func (h *hoards) punish(boxes []*Box, stop <-chan struct{}) {
	for left := slices.Clone(boxes); ; { // the locks of one that was killed stay for a moment
		locks := countLocks(left, stop)
		hoarders := locks.hoarders()
		if len(hoarders) == 0 {
			if locks.whole > mostLocks {
				punishFlocks(left, roomBeside(locks.all), stop)
			}
			break
		}
		for _, box := range hoarders {
			killBelow(box)
		}
		left = slices.DeleteFunc(left, func(b *Box) bool { return slices.Contains(hoarders, b) })
	}
	for _, box := range boxes {
		if h.killsOf(box).tooMany(box.OOMKills(), box.living.Load(), time.Now()) || h.hasSockets(box.Process.PID) {
			killBelow(box)
		}
	}
}

func (h *hoards) killsOf(box *Box) *kills {
	h.mu.Lock()
	defer h.mu.Unlock()
	if k := h.boxes[box]; k != nil {
		return k
	}
	return &kills{} // the box is no longer watched
}

// hasSockets reports whether a sandbox has too many sockets, or too much data in their queues.
func (h *hoards) hasSockets(guest int) bool {
	tcp, udp := socketsOf(guest)
	if !h.copies {
		return max(tcp, udp) > mostSockets
	}
	return tcp > fewSockets || udp > mostSockets || udp > quietUDP && queuedUDP(guest) > mostQueued
}

// locks counts the locks on this host.
type locks struct {
	parts map[*Box]map[string]bool // on parts of files, by box
	all   int                      // the sum of these
	whole int                      // on whole files, of any process
}

// roomBeside returns how many locks of one kind sandboxes may have beside those of the other.
func roomBeside(others int) int { return max(allLocks-others, allLocks/2) }

// hoarders returns the boxes with too many locks on parts of files.
func (l *locks) hoarders() (boxes []*Box) {
	counts := map[*Box]int{}
	for box, parts := range l.parts {
		counts[box] = len(parts)
	}
	return overShare(counts, roomBeside(l.whole))
}

// overShare returns the boxes with more locks than each may have: mostLocks or, if all have more than room, so many
// that they do not. So those with many lose their code, and those with few keep theirs.
func overShare(counts map[*Box]int, room int) (over []*Box) {
	most := mostLocks
	for i, n := range slices.Sorted(maps.Values(counts)) {
		if share := room / (len(counts) - i); n > share {
			most = min(max(share, leastLocks), mostLocks)
			break
		}
		room -= n
	}
	for box, n := range counts {
		if n > most {
			over = append(over, box)
		}
	}
	return over
}

// countLocks counts locks (proc_locks(5)). It stops reading where one box or all have too many on parts of files: the
// kernel walks the list from its beginning for each page, and a fast hoarder could keep the reader busy for ever. The
// newest locks are first. A lock's process lives as long as the lock: the filter refuses descriptors shared between
// processes, and open file description locks, which have no process. It also stops reading once stop is closed, or
// after twice the locks that all boxes may have.
func countLocks(boxes []*Box, stop <-chan struct{}) *locks {
	found := &locks{parts: map[*Box]map[string]bool{}}
	f, err := os.Open("/proc/locks")
	if err != nil {
		return found
	}
	defer f.Close()
	guests := map[int]*Box{}
	for _, box := range boxes {
		guests[box.Process.PID] = box
	}
	kin, boxOf := newKinship(slices.Collect(maps.Keys(guests))...), map[int]*Box{}
	lines := bufio.NewScanner(f)
	for range 2 * allLocks {
		if isClosed(stop) || !lines.Scan() {
			break
		}
		// "1: POSIX  ADVISORY  WRITE 3548 08:01:2 0 EOF"; "->" after the number marks a waiting lock.
		fields := strings.Fields(strings.Replace(lines.Text(), "->", "", 1))
		if len(fields) >= 5 && fields[1] == "FLOCK" {
			found.whole++
		}
		if len(fields) < 5 || fields[1] != "POSIX" {
			continue
		}
		pid, _ := strconv.Atoi(fields[4])
		box, known := boxOf[pid]
		if !known {
			box = guests[kin.guestOf(pid)]
			boxOf[pid] = box
		}
		if box == nil {
			continue
		}
		parts := found.parts[box]
		if parts == nil {
			parts = map[string]bool{}
			found.parts[box] = parts
		}
		lock := strings.Join(fields[1:], " ")
		if !parts[lock] { // a list that changes during reading can repeat a lock
			parts[lock] = true
			found.all++
		}
		if len(parts) > mostLocks || found.all > allLocks {
			break
		}
	}
	return found
}

// socketsOf counts the TCP and the UDP sockets of a process's network namespace, with and without a descriptor.
func socketsOf(pid int) (tcp, udp int) {
	inUse := map[string]int{}
	for _, file := range []string{"sockstat", "sockstat6"} {
		text, err := os.ReadFile(filepath.Join("/proc", strconv.Itoa(pid), "net", file))
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

// queuedUDP returns the bytes in the queues (rx_queue) of all UDP sockets of a process's network namespace, including
// errors and copies.
func queuedUDP(pid int) (bytes int64) {
	for _, file := range []string{"udp", "udp6"} {
		f, err := os.Open(filepath.Join("/proc", strconv.Itoa(pid), "net", file))
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
			n, _ := strconv.ParseInt(waiting, 16, 64) // 0 for the head line
			bytes += n
		}
		f.Close()
	}
	return bytes
}

func isClosed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// killBelow kills the code of a box.
func killBelow(box *Box) {
	guest := box.Process.PID
	kin := newKinship(guest)
	for _, pid := range mayBelongTo(box) {
		p, err := pidfd.Open(pid)
		if err != nil {
			continue
		}
		if kin.guestOf(pid) == guest { // checked after opening the pidfd, so the pid cannot have been reused
			p.Kill()
		}
		p.Close()
	}
}

// mayBelongTo returns the processes of a box without its guest; where there are no control groups, all of the host.
func mayBelongTo(box *Box) []int {
	pids := box.Processes()
	if len(pids) == 0 {
		names, _ := os.ReadDir("/proc")
		for _, name := range names {
			if pid, err := strconv.Atoi(name.Name()); err == nil {
				pids = append(pids, pid)
			}
		}
	}
	slices.Sort(pids) // a group has a list in each hierarchy
	return slices.DeleteFunc(slices.Compact(pids), func(pid int) bool { return pid == box.Process.PID })
}

// seesHoards returns nil if hoards are visible here. /proc may hide other users' processes (hidepid) or be masked.
func seesHoards() error {
	f, err := os.Open("/proc/locks")
	if err != nil {
		return err
	}
	f.Close()
	_, err = os.ReadFile("/proc/1/stat")
	return err
}
