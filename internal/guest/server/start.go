package server

import (
	"cmp"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/nowait"
	"github.com/fumehood-dev/fumehood/internal/host/fork"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (s *Server) start(c *call, m *guest.Start) error {
	p, parked, err := s.launch(m)
	if err != nil {
		return err
	}
	started := &guest.Started{PID: int32(p.pid), Parked: parked}
	if !m.Follow {
		return c.answer(started)
	}
	if err := c.Send(started); err != nil {
		return err
	}
	return s.follow(c, p, [streams]uint64{})
}

// launch starts the process of m and returns once its program runs. parked means that it is the parked interpreter.
func (s *Server) launch(m *guest.Start) (p *process, parked bool, err error) {
	if err := checkStart(m); err != nil {
		return nil, false, err
	}
	p = newProcess(s, m)
	if err := s.table.reserve(p); err != nil {
		return nil, false, err
	}
	parked, err = s.resume(p, m)
	if !parked && err == nil {
		err = s.spawn(p, m)
	}
	if err != nil {
		s.table.forget(p)
		return nil, false, err
	}
	return p, parked, nil
}

// maxID bounds an execution's id, in bytes.
const maxID = 64

func checkStart(m *guest.Start) error {
	if err := checkID(m.ID); err != nil {
		return err
	}
	switch {
	case len(m.Argv) == 0 || m.Argv[0] == "":
		return invalid("argv", "no program is given")
	case m.Dir != "" && m.Dir[0] != '/':
		return invalid("dir", "the working directory must be absolute")
	case m.Buffer > guest.MaxBuffer:
		return &guest.Failed{Kind: sandbox.TooLarge, Op: "buffer", Msg: "larger than the guest's maximum"}
	case m.Stdin > guest.StdinPipe:
		return invalid("stdin", "unknown mode")
	case m.Channel && (m.TTY || m.Stdin != guest.StdinNull):
		return invalid("channel", "a process with a channel has neither a terminal nor stdin")
	case m.KillSignal < 0 || m.KillSignal > maxSignal:
		return invalid("kill signal", "there is no such signal")
	}
	return nil
}

func checkID(id string) error {
	if id == "" || len(id) > maxID ||
		strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return invalid("id", "an id has 1 to 64 characters: letters, digits, -, _ and .")
	}
	return nil
}

// alone reports whether no other process exists, which could stop a child before it executes. The child may then borrow
// the guest's memory, which under gVisor halves the start time. Every start holds the table's lock, so no process
// appears meanwhile. Only pid 1 knows: in its pid namespace, kill(2) with -1 skips only the caller.
func (s *Server) alone() bool { return s.cfg.Init && syscall.Kill(-1, 0) == syscall.ESRCH }

// clear ends the process that waits to be adopted, if any, before the first program starts: the program could trace it.
// The caller holds the table's lock.
func (s *Server) clear() error {
	if s.table.begun || !s.cfg.Init || s.alone() {
		s.table.begun = true
		return nil
	}
	for _, other := range s.proc.list() {
		if other.parent != os.Getpid() { // of a container's engine
			continue
		}
		var err error
		if err = syscall.Kill(other.pid, syscall.SIGKILL); err == nil {
			for {
				if _, err = syscall.Wait4(other.pid, nil, unix.WALL, nil); err != syscall.EINTR {
					break
				}
			}
		}
		if err != nil {
			return &guest.Failed{Kind: sandbox.Unavailable, Op: "start",
				Msg: "cannot end a waiting process: " + err.Error()}
		}
	}
	s.table.begun = true
	return nil
}

// spawn opens the process's descriptors, forks it and starts its goroutines.
func (s *Server) spawn(p *process, m *guest.Start) error {
	fds := &childFiles{}
	defer fds.close()
	if err := s.descriptors(fds, p, m); err != nil {
		return err
	}
	if err := s.table.enter(); err != nil {
		return err
	}
	defer s.table.spawning.Unlock()
	p.spawned = time.Now()
	pid, err := s.execute(m, p.user, fds.child)
	if err != nil {
		return err
	}
	fds.keep()
	p.session = pid
	p.begin(pid, m.Deadline)
	return nil
}

// execute starts the program of m as a user, with the given descriptors. The caller holds the table's lock.
func (s *Server) execute(m *guest.Start, user sandbox.User, files []int) (pid int, err error) {
	if err := s.clear(); err != nil {
		return 0, err
	}
	o := fork.Order{Paths: programPaths(m), Argv: m.Argv, Env: marked(m), Dir: cmp.Or(m.Dir, "/"), TTY: m.TTY,
		Files: files, Copy: !s.alone()}
	for _, l := range slices.Concat(s.cfg.Limits, m.Limits) {
		o.Limits = append(o.Limits, fork.Limit(l))
	}
	if int(user.UID) != os.Geteuid() || int(user.GID) != os.Getegid() {
		o.Become = &fork.Identity{UID: user.UID, GID: user.GID, KeepGroups: !s.table.setgroups.allowed(&s.proc)}
	}
	return s.spawner.spawn(&child{order: o})
}

// marked returns the environment of m with the mark of its execution.
func marked(m *guest.Start) []string {
	mark := guest.EnvExecution + "="
	env := append(make([]string, 0, len(m.Env)+1), mark+m.ID) // first, where it is found fastest
	for _, e := range m.Env {
		if !strings.HasPrefix(e, mark) {
			env = append(env, e)
		}
	}
	return env
}

// childFiles are the descriptors of a process that is about to start: the child's ends, which the guest always closes,
// and the guest's, which it closes if the start fails.
type childFiles struct {
	child []int // its descriptors 0, 1, 2 and so on
	ends  []int
	own   []*os.File
}

func (f *childFiles) close() {
	for _, fd := range f.ends {
		syscall.Close(fd)
	}
	for _, o := range f.own {
		o.Close()
	}
}

func (f *childFiles) keep() { f.own = nil }

// descriptors makes the child's stdin, stdout, stderr and channel, if it has one, and the guest's ends of them.
func (s *Server) descriptors(f *childFiles, p *process, m *guest.Start) error {
	buffer := int(cmp.Or(m.Buffer, guest.DefaultBuffer))
	if m.TTY {
		master, peer, err := openTerminal(m.Rows, m.Cols, p.user)
		if err != nil {
			return err
		}
		f.own, f.ends = append(f.own, master), append(f.ends, peer)
		f.child = []int{peer, peer, peer}
		p.tty = master
		p.stdin.open(master, true)
		p.outputs[0] = newOutput(p, sandbox.Stdout, master, buffer, m.Discard)
		return nil
	}
	stdin := f.null
	if m.Stdin == guest.StdinPipe {
		stdin = func() error { return f.input(p) }
	}
	if err := stdin(); err != nil {
		return err
	}
	ends, err := f.outputs()
	if err != nil {
		return err
	}
	p.follow(m, ends)
	if !m.Channel {
		return nil
	}
	if err := f.input(p); err != nil {
		return err
	}
	r, err := f.output(sandbox.Channel)
	if err != nil {
		return err
	}
	var reports source = r // no pipeReader: it would delay reports
	if direct := nowait.New(r); direct != nil {
		reports = directReader{r, direct}
	}
	p.outputs[2] = newOutput(p, sandbox.Channel, reports, buffer, m.Discard)
	return f.openBackground(p)
}

// follow makes the output streams of the read ends of stdout and stderr.
func (p *process) follow(m *guest.Start, ends [2]*os.File) {
	buffer := int(cmp.Or(m.Buffer, guest.DefaultBuffer))
	for i, stream := range [2]sandbox.Stream{sandbox.Stdout, sandbox.Stderr} {
		p.outputs[i] = newOutput(p, stream, newPipeReader(ends[i]), buffer, m.Discard)
	}
}

func (f *childFiles) null() error {
	fd, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
	if err != nil {
		return failed("open /dev/null", err.(syscall.Errno))
	}
	f.child, f.ends = append(f.child, fd), append(f.ends, fd)
	return nil
}

// input makes a pipe that Input writes to the child's next descriptor.
func (f *childFiles) input(p *process) error {
	r, w, err := pipe(false)
	if err != nil {
		return failed("open stdin", err.(syscall.Errno))
	}
	f.child, f.ends, f.own = append(f.child, r), append(f.ends, r), append(f.own, w)
	p.stdin.open(w, false)
	return nil
}

// outputs makes the child's stdout and stderr, and returns their read ends.
func (f *childFiles) outputs() (ends [2]*os.File, err error) {
	for i, stream := range [2]sandbox.Stream{sandbox.Stdout, sandbox.Stderr} {
		if ends[i], err = f.output(stream); err != nil {
			return ends, err
		}
	}
	return ends, nil
}

// output makes a pipe from which the guest reads what the child writes to its next descriptor.
func (f *childFiles) output(stream sandbox.Stream) (*os.File, error) {
	w, r, err := pipe(true)
	if err != nil {
		return nil, failed("open "+stream.String(), err.(syscall.Errno))
	}
	f.child, f.ends, f.own = append(f.child, w), append(f.ends, w), append(f.own, r)
	return r, nil
}

// pipe makes a pipe with one end for the child; the guest's end is non-blocking.
func pipe(guestReads bool) (child int, own *os.File, err error) {
	var fds [2]int
	if err := unix.Pipe2(fds[:], unix.O_CLOEXEC); err != nil {
		return -1, nil, err
	}
	if !guestReads {
		fds[0], fds[1] = fds[1], fds[0]
	}
	unix.SetNonblock(fds[0], true)
	if guestReads {
		unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize) // fewer switches for heavy writers; may be refused
	}
	return fds[1], os.NewFile(uintptr(fds[0]), "pipe"), nil
}

// defaultPath is searched for programs if Env has no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// programPaths lists the program's possible paths. The child tries them in turn, as the code's user.
func programPaths(m *guest.Start) []string {
	name := m.Argv[0]
	if strings.IndexByte(name, '/') >= 0 {
		return []string{name}
	}
	path := defaultPath
	for _, e := range m.Env {
		if v, ok := strings.CutPrefix(e, "PATH="); ok {
			path = v
		}
	}
	var paths []string
	for path != "" {
		var dir string
		dir, path, _ = strings.Cut(path, ":")
		if dir != "" && dir[0] == '/' { // an empty or relative element could name a folder that the code writes
			paths = append(paths, dir+"/"+name)
		}
	}
	return paths
}

// groupsRule caches whether setgroups works: not if an ordinary user made the namespace (CVE-2014-8989).
type groupsRule struct{ known, denied bool }

func (g *groupsRule) allowed(proc *procfs) bool {
	if !g.known {
		var b [16]byte
		n := proc.read("self/setgroups", b[:])
		g.known, g.denied = true, string(b[:n]) == "deny\n"
	}
	return !g.denied
}
