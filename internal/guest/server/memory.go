package server

import (
	"bytes"
	"cmp"
	"os"
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// A kernel in user space ends with all its processes and files when the host's kernel kills it at a memory limit. So
// the guest kills the largest processes before that.
const (
	fillRate   = 2 << 30              // bytes per second; one processor fills 1 GiB/s
	leastWatch = 2 * time.Millisecond // between two looks
	mostWatch  = 200 * time.Millisecond
	calmWatch  = 20 * time.Millisecond // near the limit, while memory does not grow
	freeing    = 20 * time.Millisecond // without a change, after which killed processes have freed their memory
	spare      = 16 << 20              // bytes beyond the limit that the host grants
	taskMemory = 256 << 10             // a process takes 0.4 MiB of gVisor and of the host, a thread 0.1
)

// memoryWatch keeps the memory of a sandbox below a limit. The zero value watches nothing.
type memoryWatch struct {
	kernel kernelMemory
	base   uint64        // bytes at the start: those of the guest and its kernel
	limit  atomic.Uint64 // bytes beyond base; 0 watches nothing
	kills  atomic.Uint32 // processes that were killed
}

func (w *memoryWatch) begin(limit uint64, root bool) {
	w.kernel.root = root
	w.base = w.kernel.used(0)
	w.limit.Store(limit)
}

func (s *Server) limitMemory(c *call, m *guest.Memory) error {
	if s.memory.limit.Load() == 0 {
		return &guest.Failed{Kind: sandbox.Unsupported, Op: "memory", Msg: "this guest watches no memory"}
	}
	if m.Limit > 0 {
		s.memory.limit.Store(m.Limit)
	}
	return c.answer(&guest.MemoryState{OOMKills: s.memory.kills.Load()})
}

// watchMemory kills processes until the server ends. It looks the more often, the sooner the limit can be reached.
func (s *Server) watchMemory() {
	timer := time.NewTimer(0)
	defer timer.Stop()
	least := leastWatch
	for before := uint64(0); ; {
		select {
		case <-s.ended:
			return
		case <-timer.C:
		}
		excess, left := s.memory.look()
		if least = min(2*least, calmWatch); left < before {
			least = leastWatch
		}
		soon := before > left && before-left > left+spare // if as much is filled until the next look
		before = left
		wait := time.Duration(left*uint64(time.Second/time.Microsecond)/fillRate) * time.Microsecond
		wait = min(max(wait, least), mostWatch)
		if (excess > 0 || soon) && !s.freeMemory() {
			wait = mostWatch
		}
		timer.Reset(wait)
	}
}

// look returns the bytes beyond the limit, or those left below it.
func (w *memoryWatch) look() (excess, left uint64) {
	limit := w.base + w.limit.Load()
	used := w.kernel.used(limit)
	return used - min(used, limit), limit - min(used, limit)
}

// freeMemory kills the largest processes until memory is below the limit, none if it is. It reports whether that was
// possible. All processes stop meanwhile: else others would fill memory while the killed ones end.
func (s *Server) freeMemory() bool {
	defer unix.Kill(-1, unix.SIGCONT)
	for range 2 { // the second time finds children that were forked meanwhile
		unix.Kill(-1, unix.SIGSTOP)
		time.Sleep(leastWatch / 4)
	}
	excess, _ := s.memory.look()
	killed := map[int]bool{}
	for excess > 0 && s.killLargest(killed, excess) {
		for at := time.Now(); excess > 0 && time.Since(at) < freeing && !s.isEnded(); {
			time.Sleep(leastWatch / 4)
			unix.Kill(-1, unix.SIGSTOP)
			before := excess
			if excess, _ = s.memory.look(); excess != before {
				at = time.Now()
			}
		}
	}
	return excess == 0
}

// killLargest kills the processes that have the most memory, until it is as much as the excess. It reports whether it
// killed any.
func (s *Server) killLargest(killed map[int]bool, excess uint64) bool {
	var holders []holder
	for _, st := range s.proc.list() {
		if st.pid != os.Getpid() && !st.zombie && !killed[st.pid] {
			holders = append(holders, holder{st.pid, s.proc.resident(st.pid)})
		}
	}
	slices.SortFunc(holders, func(a, b holder) int { return cmp.Compare(b.bytes, a.bytes) })
	var freed uint64
	for _, h := range holders {
		if freed >= excess {
			break
		}
		if unix.Kill(h.pid, unix.SIGKILL) == nil {
			killed[h.pid] = true
			s.memory.kills.Add(1)
			freed += h.bytes
		}
	}
	return freed > 0
}

// holder is a process with its bytes of memory.
type holder struct {
	pid   int
	bytes uint64
}

// resident returns the bytes of memory of a process, 0 on failure.
func (f *procfs) resident(pid int) uint64 {
	var b [128]byte
	n := f.read(strconv.Itoa(pid)+"/statm", b[:])
	fields := bytes.Fields(b[:n])
	if len(fields) < 2 {
		return 0
	}
	pages, err := strconv.ParseUint(string(fields[1]), 10, 64)
	if err != nil {
		return 0
	}
	return pages * uint64(os.Getpagesize())
}

// kernelMemory counts the memory of gVisor.
type kernelMemory struct {
	root          bool   // the files of the root are in the host's memory, and count
	total, mapped uint64 // at the last look beyond the limit
}

// used returns the bytes in use. sysinfo(2) also counts mapped files of the host, which are no memory of the sandbox.
// They are subtracted where the sum is beyond the limit: reading them takes 2 ms.
func (k *kernelMemory) used(limit uint64) uint64 {
	var info unix.Sysinfo_t
	if unix.Sysinfo(&info) != nil {
		return 0
	}
	used := (info.Totalram-info.Freeram)*uint64(max(info.Unit, 1)) + uint64(info.Procs)*taskMemory
	if k.root {
		var fs unix.Statfs_t
		if unix.Statfs("/", &fs) == nil {
			used += (fs.Blocks - fs.Bfree) * uint64(fs.Bsize)
		}
	}
	if used <= limit {
		return used
	}
	if used != k.total {
		k.total, k.mapped = used, mappedFiles()
	}
	return used - min(used, k.mapped)
}

// mappedFiles returns the bytes of the host's files that are mapped or cached; 0 on failure.
func mappedFiles() uint64 {
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		return 0
	}
	_, rest, _ := bytes.Cut(text, []byte("\nMapped:"))
	line, _, _ := bytes.Cut(rest, []byte("kB"))
	kib, err := strconv.ParseUint(string(bytes.TrimSpace(line)), 10, 54)
	if err != nil {
		return 0
	}
	return kib << 10
}
