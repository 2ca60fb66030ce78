package server

import (
	"bytes"
	"os"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/server/files"
	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// procfs finds processes. Its results may be stale.
type procfs struct {
	root *os.File // nil: /proc
}

func (f *procfs) open(name string, flags int) (int, error) {
	if f.root == nil {
		return unix.Open("/proc/"+name, flags|unix.O_CLOEXEC, 0)
	}
	raw, err := f.root.SyscallConn()
	if err != nil {
		return -1, err
	}
	fd := -1
	if failed := raw.Control(func(root uintptr) {
		fd, err = unix.Openat(int(root), name, flags|unix.O_CLOEXEC, 0)
	}); failed != nil {
		return -1, failed
	}
	return fd, err
}

// read returns how much of a file it read into b, 0 on failure.
func (f *procfs) read(name string, b []byte) int {
	fd, err := f.open(name, unix.O_RDONLY)
	if err != nil {
		return 0
	}
	defer unix.Close(fd)
	n, _ := unix.Read(fd, b)
	return max(n, 0)
}

// stat holds the needed fields of /proc/PID/stat.
type stat struct {
	pid, parent, group, session int
	spawned                     uint64 // in ticks since boot; distinguishes processes with the same pid
	threads                     int
	zombie                      bool
}

func (f *procfs) stat(pid int) (stat, bool) {
	var b [512]byte
	n := f.read(strconv.Itoa(pid)+"/stat", b[:])
	return parseStat(pid, b[:n])
}

// parseStat parses the fields after the name, which is in parentheses and may contain any bytes, parentheses too.
func parseStat(pid int, b []byte) (stat, bool) {
	const threadsField, startField = 17, 19
	fields := bytes.SplitN(b[bytes.LastIndexByte(b, ')')+1:], []byte{' '}, startField+3)[1:] // it begins with a space
	if len(fields) < startField+2 || len(fields[0]) == 0 {
		return stat{}, false
	}
	spawned, err := strconv.ParseUint(string(fields[startField]), 10, 64)
	if err != nil {
		return stat{}, false
	}
	s := stat{pid: pid, spawned: spawned, zombie: fields[0][0] == 'Z' || fields[0][0] == 'X'}
	for i, to := range map[int]*int{1: &s.parent, 2: &s.group, 3: &s.session, threadsField: &s.threads} {
		n, err := strconv.Atoi(string(fields[i]))
		if err != nil {
			return stat{}, false
		}
		*to = n
	}
	return s, true
}

// sessionOf returns the session of a process, dead or alive, 0 if it is not visible.
func (f *procfs) sessionOf(pid int) int {
	s, _ := f.stat(pid)
	return s.session
}

func (f *procfs) list() []stat {
	fd, err := f.open(".", unix.O_RDONLY|unix.O_DIRECTORY)
	if err != nil {
		return nil
	}
	dir := os.NewFile(uintptr(fd), "proc")
	defer dir.Close()
	var all []stat
	for {
		names, err := dir.Readdirnames(256)
		for _, name := range names {
			if pid, err := strconv.Atoi(name); err == nil {
				if s, ok := f.stat(pid); ok {
					all = append(all, s)
				}
			}
		}
		if err != nil {
			return all
		}
	}
}

// maxEnviron bounds how much of an environment is searched. The guest puts the variable first.
const maxEnviron = 256 << 10

// names reports whether a process's initial environment names the execution. During execve it has none, so the answer
// is unclear.
func (f *procfs) names(pid int, id string) (named, unclear bool) {
	named, empty := f.environ(pid, id)
	if !empty {
		return named, false
	}
	if f.executing(pid) {
		fd, err := f.open(strconv.Itoa(pid)+"/exe", unix.O_PATH) // kernel threads have none
		if err == nil {
			unix.Close(fd)
		}
		return false, err == nil
	}
	named, _ = f.environ(pid, id) // complete now, if it was executing
	return named, false
}

// executing reports whether a process is in the middle of execve: create_elf_tables sets env_end last, and no program
// can reset it to 0 (validate_prctl_map_addr). If the guest's own is 0, the kernel does not report it: gVisor, which
// shows no process before its environment.
func (f *procfs) executing(pid int) bool {
	return f.envEnd(pid) == "0" && f.envEnd(os.Getpid()) != "0"
}

// envEnd returns env_end of /proc/PID/stat, "" if it is not visible.
func (f *procfs) envEnd(pid int) string {
	const field = 48 // after the name
	var b [1024]byte
	n := f.read(strconv.Itoa(pid)+"/stat", b[:])
	fields := bytes.Fields(b[bytes.LastIndexByte(b[:n], ')')+1 : n])
	if len(fields) <= field {
		return ""
	}
	return string(fields[field])
}

func (f *procfs) environ(pid int, id string) (named, empty bool) {
	fd, err := f.open(strconv.Itoa(pid)+"/environ", unix.O_RDONLY)
	if err != nil {
		return false, false
	}
	file := os.NewFile(uintptr(fd), "environ")
	defer file.Close()
	mark := []byte(guest.EnvExecution + "=" + id + "\x00")
	b := append(make([]byte, 0, 4<<10), 0) // a NUL also before the first variable
	for len(b) < maxEnviron {
		n, err := file.Read(b[len(b):cap(b)])
		from := max(0, len(b)-len(mark)-1)
		b = b[:len(b)+n]
		if i := bytes.Index(b[from:], mark); i > 0 && b[from+i-1] == 0 {
			return true, false
		}
		if err != nil {
			return false, len(b) == 1
		}
		if len(b) == cap(b) {
			b = append(make([]byte, 0, 4*cap(b)), b...)
		}
	}
	return false, false
}

// members returns the living processes of an execution except the started one: those of its session, those descended
// from one of them, those whose environment names it, and those known from before: a process that is about to end has
// neither parent nor environment. unclear means that another search may find more.
func (s *Server) members(p *process, known map[int]uint64) (found []stat, unclear bool) {
	s.as(p.user, func() {
		all := s.proc.list()
		self := os.Getpid()
		parents := make(map[int]int, len(all))
		in := map[int]bool{p.pid: true}
		for _, st := range all {
			parents[st.pid] = st.parent
			spawned, ok := known[st.pid]
			if ok && spawned == st.spawned || p.session != 0 && st.session == p.session {
				in[st.pid] = true
			}
		}
		for _, st := range all {
			if st.pid != self && !in[st.pid] && !st.zombie && descends(st.pid, self, parents, in) {
				in[st.pid] = true
			}
		}
		for _, st := range all {
			if st.pid != self && !in[st.pid] && !st.zombie {
				named, later := s.proc.names(st.pid, p.id)
				in[st.pid], unclear = named, unclear || later && st.parent == self // the others have a visible parent
			}
		}
		for _, st := range all {
			if in[st.pid] && st.pid != p.pid && st.pid != self && !st.zombie {
				found = append(found, st)
			}
		}
	})
	return found, unclear
}

// descends reports whether a chain of parents leads to a member. It stops at the guest, and at a loop, which a list
// that was not read atomically may contain.
func descends(pid, self int, parents map[int]int, in map[int]bool) bool {
	for range len(parents) {
		pid = parents[pid]
		if in[pid] {
			return true
		}
		if pid == self || pid <= 1 {
			return false
		}
	}
	return false
}

// as runs f with the user's view of /proc. The kernel checks the reader's file-system ids, or CAP_SYS_PTRACE
// (ptrace(2), PTRACE_MODE_READ_FSCREDS). For the code's user it uses a thread that stays: where an engine's process
// limit counts threads, a fork bomb takes the place of one that ends, and the runtime cannot start another.
func (s *Server) as(user sandbox.User, f func()) {
	if int(user.UID) == os.Geteuid() || canTrace() {
		f()
		return
	}
	if user == s.cfg.User && s.files.As(f) == nil {
		return
	}
	fork.OnOwnThread(func() {
		_ = files.Become(user) // on failure it sees less
		f()
	})
}

func canTrace() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_PTRACE) != 0
}
