package server

import (
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/fork"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// start serves Start.
func (s *Server) start(c *call) error {
	var m guest.Start
	if err := c.parse(&m); err != nil {
		return err
	}
	p, err := s.launch(&m)
	if err != nil {
		return err
	}
	started := &guest.Started{PID: int32(p.pid)}
	if !m.Follow {
		return c.answer(started)
	}
	if err := c.send(started); err != nil {
		return err
	}
	return s.follow(c, p, [2]uint64{})
}

// launch starts the process of m and returns it once its program runs.
func (s *Server) launch(m *guest.Start) (*process, error) {
	if err := checkStart(m); err != nil {
		return nil, err
	}
	p := newProcess(s, m.ID, m.Argv)
	p.killTree, p.killSignal, p.grace, p.drain = m.KillTree, syscall.Signal(m.KillSignal), m.Grace, m.Drain
	if p.drain == 0 {
		p.drain = guest.DefaultDrain
	}
	p.user = m.User
	if p.user == (sandbox.User{}) {
		p.user = s.cfg.User
	}
	if err := s.table.reserve(p); err != nil {
		return nil, err
	}
	if err := s.bear(p, m); err != nil {
		s.table.forget(p)
		return nil, err
	}
	return p, nil
}

// maxID bounds what names an execution, in bytes.
const maxID = 64

func checkStart(m *guest.Start) error {
	if err := checkID(m.ID); err != nil {
		return err
	}
	switch {
	case len(m.Argv) == 0 || m.Argv[0] == "":
		return invalid("argv", "there is no program")
	case m.Dir != "" && m.Dir[0] != '/':
		return invalid("dir", "the working directory must be absolute")
	case m.Buffer > guest.MaxBuffer:
		return &guest.Failed{Kind: sandbox.TooLarge, Op: "buffer", Msg: "more output than a guest keeps"}
	case m.Stdin > guest.StdinPipe:
		return invalid("stdin", "unknown mode")
	case m.KillSignal < 0 || m.KillSignal > maxSignal:
		return invalid("kill signal", "there is no such signal")
	}
	return nil
}

func checkID(id string) error {
	if id == "" || len(id) > maxID || strings.Trim(id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.") != "" {
		return invalid("id", "an execution's id is 1 to 64 letters, digits, or of -_.")
	}
	return nil
}

// alone says whether nobody is there who could stop a child before it executes. Then it may borrow the guest's memory, which under gVisor
// saves half of the time that a start takes. Nothing is spawned in between: all births wait for the table. Only pid 1 can know it: kill(2)
// leaves out the caller and, in its own pid namespace, nobody else that the caller sees.
func (s *Server) alone() bool { return s.cfg.Init && syscall.Kill(-1, 0) == syscall.ESRCH }

// bear opens the descriptors of the process, forks it and sets it going.
func (s *Server) bear(p *process, m *guest.Start) error {
	o := fork.Order{Paths: programPaths(m), Argv: m.Argv, Dir: m.Dir, TTY: m.TTY}
	if o.Dir == "" {
		o.Dir = "/"
	}
	mark := guest.EnvExecution + "="
	o.Env = append(o.Env, mark+m.ID) // first, where it is found soonest
	for _, e := range m.Env {
		if !strings.HasPrefix(e, mark) {
			o.Env = append(o.Env, e)
		}
	}
	for _, l := range slices.Concat(s.cfg.Limits, m.Limits) {
		o.Limits = append(o.Limits, fork.Limit(l))
	}
	fds := &births{}
	defer fds.close()
	if err := s.descriptors(fds, p, m); err != nil {
		return err
	}
	o.Files = fds.child[:]

	if err := s.table.enter(); err != nil {
		return err
	}
	defer s.table.birth.Unlock()
	if int(p.user.UID) != os.Geteuid() || int(p.user.GID) != os.Getegid() {
		o.Become = &fork.Identity{UID: p.user.UID, GID: p.user.GID, KeepGroups: !s.setgroups.allowed(&s.proc)}
	}
	o.Copy = !s.alone()
	p.spawned = time.Now()
	pid, err := s.spawner.spawn(&birth{order: o})
	if err != nil {
		return err
	}
	fds.keep()
	p.session = pid
	p.begin(pid, m.Deadline)
	return nil
}

// births are the descriptors of a process that is about to start: the child's ends, which the guest closes in any case, and
// the guest's, which it closes where the start fails.
type births struct {
	child [3]int
	ends  []int
	own   []*os.File
}

func (f *births) close() {
	for _, fd := range f.ends {
		syscall.Close(fd)
	}
	for _, o := range f.own {
		o.Close()
	}
}

func (f *births) keep() { f.own = nil }

// descriptors makes the child's stdin, stdout and stderr, and the guest's ends of them.
func (s *Server) descriptors(f *births, p *process, m *guest.Start) error {
	buffer := int(m.Buffer)
	if buffer == 0 {
		buffer = guest.DefaultBuffer
	}
	if m.TTY {
		master, peer, err := openTerminal(m.Rows, m.Cols, p.user)
		if err != nil {
			return err
		}
		f.own, f.ends = append(f.own, master), append(f.ends, peer)
		f.child = [3]int{peer, peer, peer}
		p.tty = master
		p.stdin.open(master, true)
		p.outputs[0] = newOutput(p, sandbox.Stdout, master, buffer, m.Discard)
		return nil
	}
	if m.Stdin == guest.StdinPipe {
		r, w, err := pipe(false)
		if err != nil {
			return failed("open stdin", err.(syscall.Errno))
		}
		f.child[0], f.ends, f.own = r, append(f.ends, r), append(f.own, w)
		p.stdin.open(w, false)
	} else {
		null, err := unix.Open("/dev/null", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return failed("open /dev/null", err.(syscall.Errno))
		}
		f.child[0], f.ends = null, append(f.ends, null)
	}
	for i, stream := range [2]sandbox.Stream{sandbox.Stdout, sandbox.Stderr} {
		w, r, err := pipe(true)
		if err != nil {
			return failed("open "+stream.String(), err.(syscall.Errno))
		}
		f.child[1+i], f.ends, f.own = w, append(f.ends, w), append(f.own, r)
		p.outputs[i] = newOutput(p, stream, r, buffer, m.Discard)
	}
	return nil
}

// pipe makes a pipe whose other end is the child's; the guest's own is non-blocking.
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
		unix.FcntlInt(uintptr(fds[0]), unix.F_SETPIPE_SZ, pipeSize) // fewer switches for those who write much; it may be refused
	}
	return fds[1], os.NewFile(uintptr(fds[0]), "pipe"), nil
}

// defaultPath is where programs are looked for when Env holds no PATH.
const defaultPath = "/usr/local/bin:/usr/bin:/bin"

// programPaths lists where the program may be. The child tries them in turn, with the rights of the code's own user.
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
		if dir != "" && dir[0] == '/' { // an empty or relative element would look into a folder that the code writes
			paths = append(paths, dir+"/"+name)
		}
	}
	return paths
}

// groupsRule says whether setgroups works. It does not where an ordinary user made the namespace (CVE-2014-8989).
type groupsRule struct{ known, denied bool }

func (g *groupsRule) allowed(proc *procfs) bool {
	if !g.known {
		var b [16]byte
		n := proc.read("self/setgroups", b[:])
		g.known, g.denied = true, string(b[:n]) == "deny\n"
	}
	return !g.denied
}
