package server

import (
	"cmp"
	"encoding/binary"
	"io"
	"os"
	"slices"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// parkTimeout bounds how long an interpreter may take until it waits, and how long it may take to read its program. The
// first takes 10 ms, under gVisor 100.
const parkTimeout = 10 * time.Second

// parked is an interpreter that waits for its program. It belongs to no execution yet. If the guest started it,
// it is stopped until the program comes, as that of an image could compute meanwhile. This does not hold a hostile one,
// which a timer can continue (timer_create(2) with SIGCONT): the host watches its usage.
type parked struct {
	argv    []string
	dir     string
	user    sandbox.User
	pid     int
	stopped int         // what kill(2) calls it and its descendants, which are stopped; 0: it is not
	channel *os.File    // our end of its descriptor 3
	outputs [2]*os.File // read ends of its stdout and stderr
}

// park starts an interpreter that waits, and answers once it does.
func (s *Server) park(c *call, m *guest.Park) error {
	if !s.cfg.Init {
		return &guest.Failed{Kind: sandbox.Unsupported, Op: "park", Msg: "the guest is not pid 1"}
	}
	if len(m.Argv) == 0 {
		if err := s.table.enter(); err != nil {
			return err
		}
		defer s.table.spawning.Unlock()
		s.table.unpark()
		return c.answer(&guest.Started{})
	}
	start := &guest.Start{ID: "parked", Argv: m.Argv, Env: m.Env, Dir: m.Dir, User: m.User}
	if err := checkStart(start); err != nil {
		return err
	}
	w, err := s.startParked(start)
	if err != nil {
		return err
	}
	ready := w.awaitReady()
	if err := s.table.enter(); err != nil {
		w.close()
		return err
	}
	defer s.table.spawning.Unlock()
	if ready != nil {
		w.end()
		return &guest.Failed{Kind: sandbox.Unavailable, Op: "park", Msg: "the interpreter does not wait: " +
			ready.Error()}
	}
	s.table.unpark()
	syscall.Kill(w.stopped, syscall.SIGSTOP)
	s.table.parked = w
	return c.answer(&guest.Started{PID: int32(w.pid)})
}

// startParked starts the process with descriptors as for an execution without stdin, and its channel.
func (s *Server) startParked(m *guest.Start) (*parked, error) {
	fds := &childFiles{}
	defer fds.close()
	w := &parked{argv: m.Argv, dir: m.Dir, user: s.userOf(m.User)}
	if err := fds.null(); err != nil {
		return nil, err
	}
	var err error
	if w.outputs, err = fds.outputs(); err != nil {
		return nil, err
	}
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return nil, failed("open channel", err.(syscall.Errno))
	}
	unix.SetNonblock(pair[0], true)
	w.channel = os.NewFile(uintptr(pair[0]), "channel")
	fds.child, fds.ends, fds.own = append(fds.child, pair[1]), append(fds.ends, pair[1]), append(fds.own, w.channel)
	if err := s.table.enter(); err != nil {
		return nil, err
	}
	defer s.table.spawning.Unlock()
	only := os.Getpid() == 1 && !s.cfg.Visited && s.alone()
	if w.pid, err = s.execute(m, w.user, fds.child); err != nil {
		return nil, err
	}
	if w.stopped = -w.pid; only { // its session's group, or with pid 1 as caller all others
		w.stopped = -1
	}
	fds.keep()
	return w, nil
}

// awaitReady reads the byte that the interpreter writes when it waits.
func (w *parked) awaitReady() error {
	w.channel.SetReadDeadline(time.Now().Add(parkTimeout))
	var word [1]byte
	_, err := io.ReadFull(w.channel, word[:])
	return err
}

// resume lets the parked interpreter run the program of m as the execution p. It reports false if none is parked, or if
// the parked one cannot run this program: it has ended then, and the caller starts a process.
func (s *Server) resume(p *process, m *guest.Start) (bool, error) {
	if err := s.table.enter(); err != nil {
		return false, err
	}
	defer s.table.spawning.Unlock()
	w := s.table.parked
	if w == nil {
		return false, nil
	}
	if !w.fits(p, m) || w.give(m) != nil {
		s.table.unpark()
		return false, nil
	}
	s.table.parked = nil
	w.channel.Close()
	p.spawned, p.session = time.Now(), w.pid
	p.follow(m, w.outputs)
	p.begin(w.pid, m.Deadline)
	return true, nil
}

// fits reports whether the interpreter can run the program of m: it still waits, and was started as m demands.
func (w *parked) fits(p *process, m *guest.Start) bool {
	if !m.Parked || m.Stdin != guest.StdinNull || m.TTY || m.Channel || len(m.Limits) > 0 || m.Dir != w.dir ||
		p.user != w.user || len(m.Argv) < len(w.argv) || !slices.Equal(m.Argv[:len(w.argv)], w.argv) {
		return false
	}
	ended, err := waitid(unix.P_PID, w.pid, unix.WNOHANG)
	return err == nil && ended == 0
}

// give sends the program: the byte counts of its arguments and of its environment, then both, with a NUL byte after
// each string. The program begins when the interpreter has read all.
func (w *parked) give(m *guest.Start) error {
	b := make([]byte, 8)
	for i, list := range [2][]string{m.Argv[len(w.argv):], marked(m)} {
		start := len(b)
		for _, word := range list {
			b = append(append(b, word...), 0)
		}
		binary.LittleEndian.PutUint32(b[4*i:], uint32(len(b)-start))
	}
	if w.stopped != 0 {
		if err := syscall.Kill(w.stopped, syscall.SIGCONT); err != nil {
			return err
		}
	}
	w.channel.SetWriteDeadline(time.Now().Add(parkTimeout))
	_, err := w.channel.Write(b)
	return err
}

// unpark ends the parked interpreter, if any. The caller holds the spawning lock.
func (t *table) unpark() {
	if t.parked != nil {
		t.parked.end()
		t.parked = nil
	}
}

// end kills the interpreter and its descendants, and waits until the interpreter is gone, but not for ever: a process
// that traces it, or another one with its pid, may be left. The caller holds the spawning lock, so the reaper does not
// take its end for that of an execution's process.
func (w *parked) end() {
	if _, err := waitid(unix.P_PID, w.pid, unix.WNOHANG); err == nil { // else its pid may be another's
		syscall.Kill(cmp.Or(w.stopped, w.pid), syscall.SIGKILL)
		for end := time.Now().Add(killTimeout); time.Now().Before(end); time.Sleep(killPause / 4) {
			pid, err := syscall.Wait4(w.pid, nil, unix.WALL|unix.WNOHANG, nil)
			if pid != 0 && err != syscall.EINTR {
				break
			}
		}
	}
	w.close()
}

func (w *parked) close() {
	w.channel.Close()
	for _, f := range w.outputs {
		f.Close()
	}
}
