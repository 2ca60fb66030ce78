package server

import (
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// table holds the executions that have a record.
type table struct {
	// spawning is held from before a fork until the process is in the table. The reaper takes it too, so it knows every
	// dead child that it finds. Lock order: spawning, a process's mu, the mu of the table or the server.
	spawning  sync.Mutex
	setgroups groupsRule // guarded by spawning
	parked    *parked    // an interpreter that waits for its program; guarded by spawning
	begun     bool       // an execution has started or was adopted; guarded by spawning

	mu      sync.Mutex // guards all below
	byID    map[string]*process
	byPID   map[int]*process // not yet reaped
	stopped bool
	news    sync.Cond // a child was spawned or reaped
}

func (t *table) init() {
	t.byID, t.byPID = make(map[string]*process), make(map[int]*process)
	t.news.L = &t.mu
}

// enter takes the spawning lock, unless the table is stopped.
func (t *table) enter() error {
	t.spawning.Lock()
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.stopped {
		t.spawning.Unlock()
		return &guest.Failed{Kind: sandbox.Unavailable, Op: "start", Msg: "the guest is ending"}
	}
	return nil
}

// reserve makes a record for an execution that is about to start.
func (t *table) reserve(p *process) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case t.byID[p.id] != nil:
		return &guest.Failed{Kind: sandbox.Exists, Op: "start " + p.id, Msg: "an execution with this id exists"}
	case len(t.byID) >= guest.MaxProcesses:
		return &guest.Failed{Kind: sandbox.Quota, Op: "start", Msg: "too many unacknowledged executions"}
	}
	t.byID[p.id] = p
	return nil
}

// forget drops a record, if it is still p's.
func (t *table) forget(p *process) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.byID[p.id] == p {
		delete(t.byID, p.id)
	}
}

func (t *table) find(id string) (*process, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if p := t.byID[id]; p != nil && p.pid != 0 {
		return p, nil
	}
	return nil, &guest.Failed{Kind: sandbox.NotFound, Op: "execution " + id, Msg: "there is no such execution"}
}

// all returns every execution that has a record.
func (t *table) all() []*process {
	t.mu.Lock()
	defer t.mu.Unlock()
	list := make([]*process, 0, len(t.byID))
	for _, p := range t.byID {
		if p.pid != 0 {
			list = append(list, p)
		}
	}
	return list
}

// stop refuses new executions, waits for one being spawned, and lets the reaper end once there is no child.
func (t *table) stop() {
	t.spawning.Lock()
	defer t.spawning.Unlock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.stopped = true
	t.news.Broadcast()
}

// reapAll is pid 1's duty: it waits for every child, started, adopted or orphaned.
func (s *Server) reapAll() {
	for {
		pid, err := nextDead(unix.P_ALL, 0)
		switch err {
		case nil:
			s.reap(pid)
		case unix.EINTR:
		default: // ECHILD
			if !s.table.awaitChild() {
				return
			}
		}
	}
}

// awaitChild waits until there may be a child again; false means that there will be none.
func (t *table) awaitChild() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.byPID) == 0 && !t.stopped {
		t.news.Wait()
	}
	return len(t.byPID) > 0
}

// reapOne waits for one process, if other children of this program are not the server's.
func (s *Server) reapOne(pid int) {
	for {
		if _, err := nextDead(unix.P_PID, pid); err != unix.EINTR {
			s.reap(pid)
			return
		}
	}
}

// siginfo is the result of waitid(2), in the layout of 64-bit machines: signo, errno, code, padding, pid, uid, status.
type siginfo struct {
	signo, errno, code, _ int32
	pid                   int32
	uid                   uint32
	status                int32
	_                     [128 - 28]byte
}

// nextDead waits for a dead child and leaves it unreaped, so its pid is not reused before reap.
func nextDead(what, id int) (pid int, err error) { return waitid(what, id, 0) }

func waitid(what, id, options int) (pid int, err error) {
	var info siginfo
	_, _, errno := syscall.Syscall6(syscall.SYS_WAITID, uintptr(what), uintptr(id), uintptr(unsafe.Pointer(&info)),
		uintptr(unix.WEXITED|unix.WNOWAIT|unix.WALL|options), 0, 0)
	if errno != 0 {
		return 0, errno
	}
	return int(info.pid), nil
}

// reap reaps a dead child and passes its status to its execution.
func (s *Server) reap(pid int) {
	t := &s.table
	t.spawning.Lock()
	defer t.spawning.Unlock()
	t.mu.Lock()
	p := t.byPID[pid]
	t.mu.Unlock()
	session := 0
	if p == nil {
		session = s.proc.sessionOf(pid)
	} else {
		// Signallers hold p's mu and check whether it is reaped, so no signal hits a later process with the same pid.
		p.mu.Lock()
		defer p.mu.Unlock()
	}
	var ws syscall.WaitStatus
	var usage syscall.Rusage
	for {
		_, err := syscall.Wait4(pid, &ws, syscall.WNOHANG|unix.WALL, &usage)
		if err == syscall.EINTR {
			continue
		}
		if err != nil {
			return // it never executed its program, and its starter reaped it
		}
		break
	}
	t.mu.Lock()
	delete(t.byPID, pid)
	t.news.Broadcast()
	t.mu.Unlock()
	if p != nil {
		p.reapedAs(ws, &usage)
	} else if ws.Signaled() && ws.Signal() == syscall.SIGKILL {
		s.foreignKill(session)
	}
}

// foreignKill records that an orphan died of SIGKILL. It belongs to the execution of its session, or to the only
// execution.
func (s *Server) foreignKill(session int) {
	var only *process
	n := 0
	for _, p := range s.table.all() {
		p.mu.Lock()
		over, same := p.exited != nil, session != 0 && p.session == session
		p.mu.Unlock()
		if same {
			only, n = p, 1
			break
		}
		if !over {
			only = p
			n++
		}
	}
	if n != 1 {
		return
	}
	only.mu.Lock()
	defer only.mu.Unlock()
	if !only.sentKill && only.exited == nil {
		only.foreignKills++
	}
}
