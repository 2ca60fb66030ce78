package server

import (
	"cmp"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// streams is how many output streams a process may have.
const streams = 4

// process is one execution, from before its fork until its record is acknowledged.
type process struct {
	s          *Server
	id         string
	argv       []string
	user       sandbox.User
	spawned    time.Time
	pid        int // written once, under the table's mu; 0 before the fork
	session    int // the process's own session; 0 if it was adopted from another
	tty        *os.File
	stdin      stdin
	outputs    [streams]*output // stdout, stderr, channel, background; a terminal has only the first, few the last two
	background background       // of a process with a channel

	killTree   bool
	killSignal syscall.Signal
	grace      time.Duration
	drain      time.Duration

	mu           sync.Mutex // guards all below, and the outputs
	changed      sync.Cond  // signals output, the end, or the cancellation of a waiter
	reaped       bool
	status       syscall.WaitStatus
	usage        syscall.Rusage
	wall         time.Duration
	timedOut     bool
	signaled     bool // a caller requested SIGKILL
	sentKill     bool // SIGKILL was sent to a process of this execution for any reason
	foreignKills uint32
	pending      int    // events that the exit record waits for: pumps, killing the tree, the process itself
	kills        int    // goroutines that kill its processes, or are about to
	forgotten    bool   // the record is dropped: nobody may wait for it
	looked       bool   // left is set or being counted
	left         uint32 // leftover processes
	tasks        uint32 // processes and threads of the sandbox when the deadline had passed
	exited       *guest.Exited
	deadline     *time.Timer
	old          []source // pipes that were its stdout and stderr, and that others may still write to
}

func newProcess(s *Server, m *guest.Start) *process {
	p := &process{s: s, id: m.ID, argv: m.Argv, user: m.User, killTree: m.KillTree,
		killSignal: syscall.Signal(m.KillSignal),
		grace:      m.Grace, drain: cmp.Or(m.Drain, guest.DefaultDrain), pending: 1}
	p.changed.L = &p.mu
	if s != nil {
		p.user = s.userOf(m.User)
	}
	return p
}

// userOf returns the user of a request: the zero value is the sandbox's own.
func (s *Server) userOf(user sandbox.User) sandbox.User { return cmp.Or(user, s.cfg.User) }

// begin starts the goroutines of a forked process. Called with the table's spawning lock held.
func (p *process) begin(pid int, deadline time.Duration) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.s.table.mu.Lock()
	p.pid = pid
	p.s.table.byPID[pid] = p
	p.s.table.news.Broadcast()
	p.s.table.mu.Unlock()
	for _, o := range p.outputs {
		if o != nil {
			p.pending++
			if o.stream == sandbox.Background {
				p.s.run(p.background.serve)
				continue
			}
			p.s.run(o.pump)
		}
	}
	if deadline > 0 {
		p.deadline = time.AfterFunc(deadline, p.expire)
	}
	if !p.s.cfg.Init {
		p.s.run(func() { p.s.reapOne(pid) })
	}
}

// reapedAs records how the process itself ended. Its output may still arrive. Called with mu held.
func (p *process) reapedAs(ws syscall.WaitStatus, usage *syscall.Rusage) {
	p.reaped, p.status, p.usage, p.wall = true, ws, *usage, time.Since(p.spawned)
	p.changed.Broadcast()
	if ws.Signaled() && ws.Signal() == syscall.SIGKILL && !p.sentKill {
		p.foreignKills++
	}
	if p.deadline != nil {
		p.deadline.Stop()
	}
	if p.tty == nil {
		p.stdin.close()
	}
	if p.killTree {
		p.endTree()
	}
	p.awaitOutput()
	p.ended()
}

// awaitOutput bounds the wait for a reaped process's output. Processes being killed hold the output open until they are
// dead, so Drain begins after that, but at the latest after killTimeout. Called with mu held.
func (p *process) awaitOutput() {
	if !p.reaped || p.forgotten {
		return
	}
	end := p.spawned.Add(p.wall).Add(killTimeout).Add(p.drain)
	if drained := time.Now().Add(p.drain); p.kills == 0 && drained.Before(end) {
		end = drained
	}
	p.setReadDeadlines(end)
}

// setReadDeadlines bounds the reading of all output. Called with mu held.
func (p *process) setReadDeadlines(end time.Time) {
	for _, o := range p.outputs {
		if o != nil {
			o.file.SetReadDeadline(end)
		}
	}
	for _, file := range p.old {
		file.SetReadDeadline(end)
	}
}

// ended counts one event that the exit record waits for. Called with mu held.
func (p *process) ended() {
	p.pending--
	if p.pending > 0 || p.countLeftovers() {
		return
	}
	e := &guest.Exited{
		ID:          p.id,
		Code:        int32(p.status.ExitStatus()), // -1 where a signal ended it
		TimedOut:    p.timedOut,
		Signaled:    p.signaled,
		ForeignKill: p.foreignKills,
		Wall:        p.wall,
		CPU:         time.Duration(p.usage.Utime.Nano() + p.usage.Stime.Nano()),
		MaxRSS:      uint64(max(p.usage.Maxrss, 0)) << 10,
		Left:        p.left,
		Tasks:       p.tasks,
	}
	if p.status.Signaled() {
		e.Signal = int32(p.status.Signal())
	}
	e.Stdout, e.Stderr, e.Channel = p.ends()
	for _, o := range p.outputs {
		e.Incomplete = e.Incomplete || o != nil && o.incomplete
	}
	p.exited = e
	p.changed.Broadcast()
}

// await waits until cond, which is called with mu held, is true. It returns false if the call was canceled first.
func (p *process) await(c *call, cond func() bool) bool {
	stop := c.OnCancel(func() {
		p.mu.Lock()
		defer p.mu.Unlock()
		p.changed.Broadcast()
	})
	defer stop()
	p.mu.Lock()
	defer p.mu.Unlock()
	for !cond() {
		if c.Wanted() != nil {
			return false
		}
		p.changed.Wait()
	}
	return true
}

// discard releases the process's resources after its record was dropped.
func (p *process) discard() {
	p.mu.Lock()
	p.forgotten = true
	p.changed.Broadcast()
	for _, o := range p.outputs {
		if o != nil {
			o.room.Broadcast()
		}
	}
	p.setReadDeadlines(time.Unix(1, 0))
	p.mu.Unlock()
}

func (p *process) info() guest.ProcessInfo {
	p.mu.Lock()
	defer p.mu.Unlock()
	i := guest.ProcessInfo{ID: p.id, PID: int32(p.pid), Argv: shortArgv(p.argv), Started: p.spawned.Sub(p.s.spawned),
		TTY:    p.tty != nil,
		Exited: p.exited != nil, Stdin: p.stdin.taken.Load()}
	i.Stdout, i.Stderr, i.Channel = p.ends()
	return i
}

// ends returns the length of each output so far. Called with mu held.
func (p *process) ends() (stdout, stderr, channel uint64) {
	var ends [streams]uint64
	for i, o := range p.outputs {
		if o != nil {
			ends[i] = o.ring.End()
		}
	}
	return ends[0], ends[1], ends[2]
}

// maxListedArgv bounds one process's argument list in Processes, so that MaxProcesses of them fit one message.
const maxListedArgv = 96

func shortArgv(argv []string) []string {
	left := maxListedArgv
	var short []string
	for _, a := range argv {
		a = a[:min(len(a), left)]
		short = append(short, a)
		if left -= len(a) + 2; left <= 0 {
			break
		}
	}
	return short
}
