package engine

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/internal/driver"
	"github.com/glovebox-dev/glovebox/internal/guest"
	"github.com/glovebox-dev/glovebox/internal/guest/client"
	"github.com/glovebox-dev/glovebox/sandbox"
)

const sigkill = syscall.SIGKILL

// Limits of one interpreter, in bytes.
const (
	channelBuffer = 1 << 20  // that the guest keeps of each of its streams
	maxBetween    = 64 << 10 // of output between two executions, which the next one gets; the rest is dropped
	maxLastWords  = 500      // of its output in an error
)

// interpreter is the process of a context, from its start to its end. Its goroutine reads the process's streams and gives them to the
// execution that runs.
type interpreter struct {
	context *Context
	id      sandbox.ID
	process *client.Process // as it was started; signals and input find the process by its id
	ready   chan struct{}   // closed by the driver's first report
	gone    chan struct{}   // closed once the process has ended
	exited  guest.Exited    // valid once gone is closed, unless err is set
	err     error           // why its end is not known

	parser driver.Parser // of the goroutine alone, like all up to mu
	from   uint64        // offset in the channel where the parser began
	acked  guest.Ack     // what the guest may forget
	whole  uint64        // offset in the channel after the last whole frame
	first  bool          // the driver has reported

	mu      sync.Mutex // guards all below
	current *Execution
	end     *runEnd      // of current, once the driver has reported it
	taken   guest.Attach // output that was received
	between []guest.Output
	held    int // bytes in between
	answers chan [][]byte
}

// runEnd is the driver's report that the current execution is over.
type runEnd struct {
	code           int
	stdout, stderr uint64 // offsets up to which output belongs to it
}

func newInterpreter(c *Context, id sandbox.ID, p *client.Process) *interpreter {
	return &interpreter{context: c, id: id, process: p, ready: make(chan struct{}), gone: make(chan struct{}), taken: p.Offsets()}
}

func (in *interpreter) isGone() bool {
	select {
	case <-in.gone:
		return true
	default:
		return false
	}
}

func (in *interpreter) running() *Execution {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.current
}

// watch follows the process to its end.
func (in *interpreter) watch() {
	s := in.context.sandbox
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	in.exited, in.err = s.follow(ctx, in.process, in.take)
	if in.err != nil && s.life.Err() == nil { // it broke the protocol
		s.engine.log.Info("ended the interpreter of a context", "sandbox", s.id, "context", in.context.name, "err", in.err)
		in.signal(sigkill, guest.ScopeExecution)
		in.exited, in.err = in.awaitExit()
		in.exited.Signaled = false // nobody canceled it
	}
	if in.err == nil {
		ack, cancel := context.WithTimeout(s.life, usageTimeout)
		_ = s.connection().Ack(ack, guest.Ack{ID: string(in.id), Exit: true}) // or the record stays until the sandbox ends
		cancel()
	}
	close(in.gone)
}

func (in *interpreter) awaitExit() (guest.Exited, error) {
	ctx, cancel := context.WithTimeout(in.context.sandbox.life, killTimeout)
	defer cancel()
	return in.context.sandbox.connection().Wait(ctx, string(in.id))
}

// take receives one piece of the process's streams.
func (in *interpreter) take(p *client.Process, m guest.Output) error {
	if m.Stream == sandbox.Channel {
		if err := in.takeReports(m); err != nil {
			return err
		}
	} else if err := in.takeOutput(m); err != nil {
		return err
	}
	in.complete()
	return in.acknowledge(p, m)
}

func (in *interpreter) takeOutput(m guest.Output) error {
	in.mu.Lock()
	x := in.current
	end := m.Offset + uint64(len(m.Data))
	if m.Stream == sandbox.Stdout {
		in.taken.Stdout = end
	} else {
		in.taken.Stderr = end
	}
	if x == nil && in.held+len(m.Data) <= maxBetween {
		m.Data = append([]byte(nil), m.Data...)
		in.between = append(in.between, m)
		in.held += len(m.Data)
	}
	in.mu.Unlock()
	if x == nil {
		return nil
	}
	return x.takeOutput(m)
}

// takeReports receives bytes of the channel.
func (in *interpreter) takeReports(m guest.Output) error {
	if in.parser.Used() == 0 && in.parser.Empty() {
		in.from = m.Offset
	}
	err := in.parser.Feed(m.Data, func(f driver.Frame) error { return in.report(f, m.BeforeStdout, m.BeforeStderr) })
	if err != nil {
		return fmt.Errorf("the driver broke the protocol: %w", err)
	}
	in.whole = in.from + in.parser.Used()
	return nil
}

// report handles one report of the driver. Code may forge any.
func (in *interpreter) report(f driver.Frame, stdout, stderr uint64) error {
	if f.Kind == driver.Ready {
		if !in.first { // a later one was seen under an earlier server, or is forged
			in.first = true
			close(in.ready)
		}
		return nil
	}
	in.mu.Lock()
	x := in.current
	in.mu.Unlock()
	if len(f.Fields) == 0 {
		return fmt.Errorf("a %.20q without an id", f.Kind)
	}
	if f.Kind == driver.Matches {
		in.answer(f.Fields)
		return nil
	}
	if x == nil || string(f.Fields[0]) != string(x.id) {
		return nil // of an execution that an earlier server began and nobody knows, or forged
	}
	if f.Kind == driver.Done {
		return in.over(f, stdout, stderr)
	}
	return x.report(f, in.from+in.parser.Used())
}

// over notes that the current execution is over. Its output may still be on its way.
func (in *interpreter) over(f driver.Frame, stdout, stderr uint64) error {
	code, err := exitCode(f)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.end == nil {
		in.end = &runEnd{code: code, stdout: stdout, stderr: stderr}
	}
	return nil
}

// complete ends the current execution once its end is reported and all its output is there.
func (in *interpreter) complete() {
	in.mu.Lock()
	defer in.mu.Unlock()
	if x := in.current; x != nil && in.end != nil && in.taken.Stdout >= in.end.stdout && in.taken.Stderr >= in.end.stderr {
		x.code = in.end.code
		in.current, in.end = nil, nil
		close(x.ran)
	}
}

// acknowledge lets the guest forget what is in the log, or belongs to nobody. Reports are forgotten whole, so that the next server finds
// the beginning of one; a large one, for which the guest has no room, in part.
func (in *interpreter) acknowledge(p *client.Process, m guest.Output) error {
	in.mu.Lock()
	x, now := in.current, in.taken
	in.mu.Unlock()
	channel := in.whole
	if at := p.Offsets().Channel; at-in.acked.Channel > channelBuffer/2 {
		channel = at
	}
	if now.Stdout-in.acked.Stdout+now.Stderr-in.acked.Stderr+channel-in.acked.Channel < ackStep {
		return nil
	}
	if x != nil {
		if err := x.log.Sync(); err != nil {
			return err
		}
	}
	at := p.Offsets() // without m, which is acknowledged with the next piece
	in.acked = guest.Ack{Stdout: at.Stdout, Stderr: at.Stderr, Channel: min(channel, at.Channel)}
	return p.Ack(in.acked)
}

// begin makes an execution the current one. Output that came since the last one is its own.
func (in *interpreter) begin(x *Execution) {
	x.output.gaps = true // where more came than is kept
	for first := true; ; first = false {
		in.mu.Lock()
		between := in.between
		in.between, in.held = nil, 0
		if first {
			x.base = guest.Attach{Stdout: in.taken.Stdout, Stderr: in.taken.Stderr}
			for _, m := range between {
				if m.Stream == sandbox.Stdout {
					x.base.Stdout -= uint64(len(m.Data))
				} else {
					x.base.Stderr -= uint64(len(m.Data))
				}
			}
			x.logBegan(in.id) // before any output
		}
		if len(between) == 0 {
			in.current = x
		}
		in.mu.Unlock()
		if len(between) == 0 {
			return
		}
		for _, m := range between {
			x.output.show(m.Stream, m.Data)
		}
	}
}

// leave takes back an execution that did not run to its end.
func (in *interpreter) leave(x *Execution) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.current == x {
		in.current, in.end = nil, nil
	}
}

// send sends a request to the driver.
func (in *interpreter) send(ctx context.Context, f driver.Frame) error {
	return in.process.Input(ctx, f.Append(nil))
}

// interrupt sends SIGINT to the interpreter and the commands that it runs.
func (in *interpreter) interrupt(ctx context.Context) error {
	return in.context.sandbox.connection().Signal(ctx, guest.Signal{ID: string(in.id), Signal: int32(syscall.SIGINT), Scope: guest.ScopeGroup})
}

func (in *interpreter) signal(signal syscall.Signal, scope guest.SignalScope) {
	ctx, cancel := context.WithTimeout(in.context.sandbox.life, killTimeout)
	defer cancel()
	_ = in.context.sandbox.connection().Signal(ctx, guest.Signal{ID: string(in.id), Signal: int32(signal), Scope: scope}) // its end tells
}

// kill kills the interpreter with all its processes and waits for its end.
func (in *interpreter) kill() {
	if in.isGone() {
		return
	}
	in.signal(sigkill, guest.ScopeExecution)
	select {
	case <-in.gone:
	case <-time.After(killTimeout):
		in.context.sandbox.endAside("its guest did not end an interpreter in " + killTimeout.String())
	case <-in.context.sandbox.life.Done():
	}
}

// lastWords is the end of what an interpreter wrote that failed to start.
func (in *interpreter) lastWords() string {
	in.mu.Lock()
	defer in.mu.Unlock()
	var text []byte
	for _, m := range in.between {
		text = append(text, m.Data...)
	}
	if len(text) == 0 {
		return fmt.Sprintf("exit code %d, signal %d", in.exited.Code, in.exited.Signal)
	}
	return fmt.Sprintf("%q", text[max(0, len(text)-maxLastWords):])
}
