package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/internal/driver"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const sigkill = syscall.SIGKILL

// Limits of one interpreter, in bytes.
const (
	channelBuffer = 1 << 20 // that the guest keeps of each of its streams
	// of output between two runs, and of reports other than values: reading it costs the host CPU
	maxStray     = 64 << 20
	maxLastWords = 500 // of its output in an error
)

// interpreter is the process of a context, from its start to its end. Its goroutine reads the process's streams and
// gives them to the run that runs.
type interpreter struct {
	context *Context
	id      sandbox.ID
	ready   chan struct{} // closed by the driver's first report
	gone    chan struct{} // closed once the process has ended
	exited  guest.Exited  // valid once gone is closed, unless err is set
	err     error         // why its end is not known

	parser driver.Parser // of the goroutine alone, like all fields up to mu
	from   uint64        // offset in the channel where the parser began
	acked  guest.Ack     // what the guest may drop
	whole  uint64        // offset in the channel after the last whole frame
	first  bool          // the driver has reported
	late   lateReports   // that wait for output

	mu         sync.Mutex      // guards all below
	process    *client.Process // as the current connection knows it
	current    *Run
	taken      guest.Attach // output that was received
	background background
	stray      int // bytes that count for maxStray, since the current run or the last one began
	asked      asked
	at         offsets
}

// offsets are positions in the streams of an interpreter.
type offsets struct {
	sent  uint64 // bytes to its stdin
	split bool   // the guest has dropped the beginning of a report
	ended uint64 // offset of the channel before the last done report, or after the last answer to a question
}

func newInterpreter(c *Context, id sandbox.ID, p *client.Process) *interpreter {
	at := p.Offsets()
	return &interpreter{context: c, id: id, process: p, ready: make(chan struct{}), gone: make(chan struct{}),
		taken: at, acked: guest.Ack{Stdout: at.Stdout, Stderr: at.Stderr, Channel: at.Channel}}
}

// endedInterpreter returns the interpreter of an earlier server, which has ended.
func endedInterpreter(c *Context, id sandbox.ID) *interpreter {
	in := &interpreter{context: c, id: id, ready: make(chan struct{}), gone: make(chan struct{})}
	close(in.gone)
	return in
}

func (in *interpreter) isGone() bool {
	select {
	case <-in.gone:
		return true
	default:
		return false
	}
}

func (in *interpreter) running() *Run {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.current
}

// watch follows the process to its end.
func (in *interpreter) watch() {
	s := in.context.sandbox
	ctx, cancel := context.WithCancel(s.life)
	defer cancel()
	in.exited, in.err = in.follow(ctx)
	s.engine.living.reports.Give(s.owner, in.late.held)
	in.parser, in.late = driver.Parser{}, lateReports{} // the context keeps its interpreter until the next one
	if in.err != nil && s.life.Err() == nil {           // it broke the protocol
		s.engine.log.Info("ended the interpreter of a context", "sandbox", s.id, "context", in.context.name,
			"err", in.err)
		in.exited, in.err = s.endProcess(in.id, true)
		in.exited.Signaled = false // no caller canceled it
	}
	if in.err == nil {
		s.forgetProcess(in.id)
		_ = os.Remove(in.splitFile()) // if there is one
	}
	close(in.gone)
}

// attached notes the process, as a new connection knows it.
func (in *interpreter) attached(p *client.Process) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.process = p
}

func (in *interpreter) attachment() *client.Process {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.process
}

// follow contains a panic over what came out of the sandbox: it ends this interpreter, not the server.
func (in *interpreter) follow(ctx context.Context) (exited guest.Exited, err error) {
	s := in.context.sandbox
	defer func() {
		if p := recover(); p != nil {
			err = s.engine.panicked("follow a context", p)
		}
	}()
	return s.follow(ctx, in.attachment(), in.attached, in.take, false)
}

// take receives one piece of the process's streams.
func (in *interpreter) take(p *client.Process, m guest.Output) error {
	if x := in.running(); x != nil {
		defer x.label()()
	}
	var err error
	in.late.edge = in.whole
	switch m.Stream {
	case sandbox.Channel:
		err = in.takeReports(m)
	case sandbox.Background:
		err = in.takeBackground(m)
	default:
		err = in.takeOutput(m)
	}
	if err != nil {
		return err
	}
	if err := in.settle(); err != nil {
		return fmt.Errorf("the driver broke the protocol: %w", err)
	}
	if err := in.rest(); err != nil {
		return err
	}
	if err := in.hold(); err != nil {
		return err
	}
	return in.acknowledge(p)
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
	if x == nil {
		in.background.add(m.Data)
	}
	in.mu.Unlock()
	if x == nil {
		return in.countStray(len(m.Data))
	}
	return x.takeOutput(m)
}

// countStray counts bytes that no limit of a run counts.
func (in *interpreter) countStray(n int) error {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.stray += n; in.stray > maxStray {
		return fmt.Errorf("it wrote more than %d bytes that belong to no run", maxStray)
	}
	return nil
}

// takeReports receives bytes of the channel.
func (in *interpreter) takeReports(m guest.Output) error {
	if in.parser.Used() == 0 && in.parser.Empty() { // an earlier server let the guest drop what came before
		in.from, in.whole, in.acked.Channel = m.Offset, m.Offset, m.Offset
		in.late.edge = m.Offset
		if in.late.split.Begin < m.Offset && m.Offset < in.late.split.End {
			in.parser.Skip(int(in.late.split.End - m.Offset))
		}
	}
	if in.parser.Dropping() {
		if err := in.countStray(len(m.Data)); err != nil {
			return err
		}
	}
	err := in.parser.Feed(m.Data, func(f driver.Frame) error { return in.report(f, m.BeforeStdout, m.BeforeStderr) })
	if err != nil {
		return fmt.Errorf("the driver broke the protocol: %w", err)
	}
	return nil
}

// rest drops the beginning of a large report while nothing runs: it would be held without a slot, for as long as the
// context lives, and belongs to no run.
func (in *interpreter) rest() error {
	if in.running() != nil || in.isAsked() {
		return nil
	}
	return in.countStray(in.parser.Rest())
}

// hold counts the bytes that are held of reports of a run without a slot, as no slot bounds them, and of answers. An
// answer whose caller has left stays counted until the next output.
func (in *interpreter) hold() error {
	need, s := int64(0), in.context.sandbox
	if x := in.running(); x == nil || x.slotless() {
		need = max(0, int64(in.parser.Pending()+in.late.bytes)-freeReports)
	}
	reports := s.engine.living.reports
	if need > in.late.held && !reports.Take(s.owner, need-in.late.held) {
		return errors.New("its unfinished reports take too much memory of the server")
	}
	reports.Give(s.owner, max(0, in.late.held-need))
	in.late.held = need
	return nil
}

// report handles one report of the driver. Code may forge any.
func (in *interpreter) report(f driver.Frame, stdout, stderr uint64) error {
	x := in.running()
	if f.Kind != driver.Result || x == nil || len(f.Fields) == 0 || string(f.Fields[0]) != string(x.id) {
		n := driver.MaxFields // about its header
		for _, field := range f.Fields {
			n += len(field)
		}
		if err := in.countStray(n); err != nil {
			return err
		}
	}
	if f.Kind == driver.Ready {
		if !in.first { // a later one was seen under an earlier server, or is forged
			in.first = true
			close(in.ready)
		}
		return nil
	}
	if len(f.Fields) == 0 {
		return fmt.Errorf("a %.20q without an id", f.Kind)
	}
	if f.Kind == driver.Matches || f.Kind == driver.State {
		in.answer(f.Fields, in.from+in.parser.Used())
		return nil
	}
	late := lateReport{frame: f, end: in.from + in.parser.Used(), stdout: stdout, stderr: stderr}
	for _, field := range f.Fields {
		in.late.bytes += len(field)
	}
	in.late.list = append(in.late.list, late)
	if err := in.settle(); err != nil { // at once, as a piece may have hundreds, of runs under an earlier server
		return err
	}
	if in.late.bytes > maxResultBytes || len(in.late.list) > maxResults {
		return fmt.Errorf("more than %d reports, or %d bytes of them, whose output did not come", maxResults,
			maxResultBytes)
	}
	return nil
}

// lateReports are the reports that wait, in order.
type lateReports struct {
	list  []lateReport
	bytes int   // of their fields
	held  int64 // of the room for reports, also for an unfinished one

	ended  *Run   // whose done report was handled, while its log may not be finished
	before uint64 // offset of the channel before that report
	edge   uint64 // interpreter.whole before the piece that is being taken
	split  split  // the last one that the guest dropped in part
}

// lateReport is a report that waits for the output that was written before it.
type lateReport struct {
	frame          driver.Frame
	end            uint64 // offset of the channel after it
	stdout, stderr uint64 // offsets up to which output was written before it
}

// settle handles the reports whose output has arrived, in order.
func (in *interpreter) settle() error {
	for len(in.late.list) > 0 && in.taken.Stdout >= in.late.list[0].stdout &&
		in.taken.Stderr >= in.late.list[0].stderr {
		r := in.late.list[0]
		in.late.list = in.late.list[1:]
		for _, field := range r.frame.Fields {
			in.late.bytes -= len(field)
		}
		if err := in.handle(r); err != nil {
			return err
		}
		in.whole = r.end
	}
	if len(in.late.list) == 0 {
		in.late.list = nil
		in.whole = in.from + in.parser.Used()
	}
	return nil
}

// handle handles a report of the current run. Other reports are forged, or belong to an unknown run of an earlier
// server.
func (in *interpreter) handle(r lateReport) error {
	x := in.running()
	if x == nil || string(r.frame.Fields[0]) != string(x.id) {
		return nil
	}
	if r.frame.Kind != driver.Done {
		return x.report(r.frame, r.end)
	}
	code, err := exitCode(r.frame)
	if err != nil {
		return err
	}
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.current == x {
		x.code = code
		in.current, in.late.ended, in.late.before, in.at.ended = nil, x, in.whole, in.whole
		close(x.ran)
	}
	return nil
}

// acknowledge lets the guest drop output that is in the log or belongs to no run. Reports are forgotten whole, so that
// the next server finds the beginning of one; a large one, for which the guest has no room, in part.
func (in *interpreter) acknowledge(p *client.Process) error {
	in.mu.Lock()
	x, now := in.current, in.taken
	in.mu.Unlock()
	channel, ended := max(in.whole, in.acked.Channel), in.late.ended
	if ended != nil && ended.isDone() && ended.log.Sync() == nil {
		in.late.ended, ended = nil, nil
	}
	if ended != nil { // or the next server would wait for the report
		channel = max(min(channel, in.late.before), in.acked.Channel)
	}
	split := false
	if at := p.Offsets().Channel; at > channel && at-channel > channelBuffer/2 {
		channel, split = at, true
		in.noteSplit(at)
	}
	if at := p.Offsets().Channel; channel > at { // that may be the middle of a report
		channel = max(in.late.edge, in.acked.Channel)
	}
	if now.Stdout-in.acked.Stdout+now.Stderr-in.acked.Stderr+channel-in.acked.Channel < channelBuffer/4 {
		return nil
	}
	for _, x := range []*Run{ended, x} {
		if x == nil {
			continue
		}
		if err := x.log.Sync(); err != nil { // a full disk costs output, not the state of the context
			x.cannotLog("the output", err)
		}
	}
	at := p.Offsets() // without the piece that is being taken, which is acknowledged with the next
	ack := guest.Ack{Stdout: at.Stdout, Stderr: at.Stderr, Channel: min(channel, at.Channel),
		Background: at.Background}
	if p.Ack(ack) == nil { // or the connection broke, which follow handles
		in.acked = ack
		in.mu.Lock()
		in.at.split = split
		in.mu.Unlock()
	}
	return nil
}

// begin makes a run the current one, whose request has so many bytes. Output that came since the last one is background
// output.
func (in *interpreter) begin(x *Run, request int) {
	in.mu.Lock()
	defer in.mu.Unlock()
	x.base = guest.Attach{Stdout: in.taken.Stdout, Stderr: in.taken.Stderr}
	x.logBegan(begun{Interpreter: in.id, Request: in.at.sent, Size: uint64(request)}) // before any output
	if x.calls != nil {
		x.calls.after = in.at.sent + uint64(request)
	}
	in.current, in.stray = x, 0
}

// leave takes back a run that did not run to its end.
func (in *interpreter) leave(x *Run) {
	in.mu.Lock()
	defer in.mu.Unlock()
	if in.current == x {
		in.current = nil
	}
}

// send sends a request to the driver, or the rest of one.
func (in *interpreter) send(ctx context.Context, request []byte) error {
	in.mu.Lock()
	in.at.sent += uint64(len(request))
	process := in.process
	in.mu.Unlock()
	return process.Input(ctx, request)
}

// beginSend is send without a wait for the answer, which the result does. It returns nil, and has sent nothing, if it
// had to wait.
func (in *interpreter) beginSend(ctx context.Context, request []byte) (answer func() error) {
	if len(request) == 0 {
		return func() error { return nil }
	}
	if answer = in.attachment().BeginInput(ctx, request); answer != nil {
		in.mu.Lock()
		defer in.mu.Unlock()
		in.at.sent += uint64(len(request))
	}
	return answer
}

// interrupt sends SIGINT to the interpreter, and with guest.ScopeGroup also to the commands that it runs.
func (in *interpreter) interrupt(ctx context.Context, scope guest.SignalScope) error {
	m := guest.Signal{ID: string(in.id), Signal: int32(syscall.SIGINT), Scope: scope}
	return in.context.sandbox.call(ctx, func(c *client.Client) error { return c.Signal(ctx, m) })
}

// kill kills the interpreter with all its processes and waits for its end.
func (in *interpreter) kill() {
	if in.isGone() {
		return
	}
	late := time.AfterFunc(killTimeout, func() {
		in.context.sandbox.endAside("its guest did not end an interpreter in " + killTimeout.String())
	})
	defer late.Stop()
	in.context.sandbox.signal(in.context.sandbox.life, killing(string(in.id)))
	<-in.gone // also once the sandbox has ended
}

// lastWords returns the end of the output of an interpreter that failed to start.
func (in *interpreter) lastWords() string {
	words := in.cutBackground()
	text := append(words.Head, words.Tail...)
	if len(text) == 0 {
		return fmt.Sprintf("exit code %d, signal %d", in.exited.Code, in.exited.Signal)
	}
	return fmt.Sprintf("%q", text[max(0, len(text)-maxLastWords):])
}
