package engine

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/driver"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/toolcall"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of the calls of one run, beyond which a driver breaks the protocol.
const (
	maxPendingCalls = 32   // that wait for their answers
	maxExcessCalls  = 1000 // refused ones over the limit of the run
	maxCallID       = 32   // bytes of the driver's id
)

// calls are the calls of tools that the code of a run makes. Everything about a call comes from the code, which may
// forge it: the driver's id only returns to the driver, and callers know a call by a number of the engine.
type calls struct {
	set    *toolcall.Set
	outbox chan struct{}   // holds a token while queued is not empty
	life   context.Context // ends with the run
	end    context.CancelFunc
	clock  *clock

	mu      sync.Mutex // guards all below
	count   uint64     // of all calls, refused ones included
	bytes   int64      // of arguments and answers
	pending map[uint64]*call
	queued  []*reply
	after   uint64 // offset in the stdin of the interpreter after the last answer
}

// call is a call that waits for its answer.
type call struct {
	record callRecord
	late   *time.Timer // ends the wait; nil before it is limited
}

func (c *call) stop() {
	if c.late != nil {
		c.late.Stop()
	}
}

// callRecord is a call in the log.
type callRecord struct {
	ID        uint64          `json:"id"`
	Driver    string          `json:"driver"` // the driver's id
	Name      string          `json:"name"`
	Arguments json.RawMessage `json:"arguments"`
	Timeout   time.Duration   `json:"timeout"`
}

// reply is an answer on its way to the driver.
type reply struct {
	record   answerRecord
	end      uint64        // of a refused call: offset in the channel after it
	sent     chan struct{} // closed once the driver's pipe holds it
	unlogged error         // why the log lacks it
}

// answerRecord is an answer in the log, in the order in which the driver gets them. It is there before any of it is
// sent: the next server can send the rest.
type answerRecord struct {
	ID      uint64          `json:"id"`
	Driver  string          `json:"driver"`
	Name    string          `json:"name"`
	Value   json.RawMessage `json:"value,omitempty"` // absent: it failed
	Error   string          `json:"error,omitempty"`
	Request uint64          `json:"request"` // its offset in the stdin of the interpreter
}

// frame is the answer as the driver gets it.
func (a *answerRecord) frame() driver.Frame {
	f := driver.Frame{Kind: driver.Answer, Fields: [][]byte{[]byte(a.Driver), []byte("1"), a.Value}}
	if a.Value == nil {
		f.Fields[1], f.Fields[2] = []byte("0"), []byte(a.Error)
	}
	return f
}

// newCalls returns the calls of a run with these tools, which plan has checked; nil if there are none.
func newCalls(tools sandbox.Calls) *calls {
	set, err := toolcall.Known(tools)
	if err != nil || set == nil {
		return nil
	}
	return callsOf(set)
}

// noTools returns the calls of a run without tools. Code can have functions of an earlier run, whose calls are refused.
func noTools() *calls { return callsOf(toolcall.None()) }

func callsOf(set *toolcall.Set) *calls {
	life, end := context.WithCancel(context.Background())
	return &calls{set: set, outbox: make(chan struct{}, 1), life: life, end: end,
		pending: map[uint64]*call{}, clock: newClock(set.Limits.Wait)}
}

// stubs returns the tools for the driver; nil is none.
func (x *Run) stubs() []byte {
	if x.calls == nil {
		return nil
	}
	return x.calls.set.Stubs()
}

// takeCall receives a call that the driver reports. It refuses one that breaks a limit or a schema, with an answer to
// the code; one that breaks the protocol is an error, which ends the interpreter.
func (x *Run) takeCall(f driver.Frame, end uint64) error {
	if len(f.Fields) != 4 || len(f.Fields[1]) == 0 || len(f.Fields[1]) > maxCallID {
		return fmt.Errorf("a call of %d fields, or with a long id", len(f.Fields))
	}
	if x.calls == nil {
		return fmt.Errorf("a call in a run without tools")
	}
	r := callRecord{Driver: string(f.Fields[1]), Name: string(f.Fields[2]), Timeout: x.calls.set.Limits.Timeout}
	if len(r.Name) > 4*maxCallID {
		return fmt.Errorf("a call of a tool whose name has %d bytes", len(r.Name))
	}
	if err := x.calls.enter(&r, len(f.Fields[3])); err != nil {
		return err
	}
	err := x.calls.overLimit() // before the work of a check
	if err == nil {
		r.Arguments, err = x.calls.set.Arguments(r.Name, f.Fields[3])
	}
	if err == nil {
		err = x.offer(r, end)
	}
	if err != nil {
		refusal := answerRecord{ID: r.ID, Driver: r.Driver, Name: r.Name, Error: err.Error()}
		x.queueAnswer(&reply{record: refusal, end: end})
	}
	return nil
}

// enter numbers a call. An error means that the driver breaks the protocol.
func (c *calls) enter(r *callRecord, size int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count++; c.count > uint64(c.set.Limits.Calls+maxExcessCalls) {
		return fmt.Errorf("%d calls, after all over %d were refused", c.count, c.set.Limits.Calls)
	}
	if len(c.pending) >= maxPendingCalls || len(c.queued) >= maxPendingCalls {
		return fmt.Errorf("more than %d calls at a time", maxPendingCalls)
	}
	for _, p := range c.pending {
		if p.record.Driver == r.Driver {
			return fmt.Errorf("two calls with the id %q", r.Driver)
		}
	}
	c.bytes += int64(size)
	r.ID = c.count
	return nil
}

// overLimit returns why no further call is allowed, for the code.
func (c *calls) overLimit() error {
	limits := c.set.Limits
	c.mu.Lock()
	defer c.mu.Unlock()
	switch {
	case c.count > uint64(limits.Calls):
		return fmt.Errorf("this run may call tools %d times", limits.Calls)
	case c.bytes > limits.Bytes:
		return fmt.Errorf("the calls of this run may have %s of arguments and answers",
			sandbox.FormatBytes(limits.Bytes))
	}
	return nil
}

// offer shows a call to the caller, and stops the clock of the run.
func (x *Run) offer(r callRecord, end uint64) error {
	x.calls.await(r) // before the log shows it: who follows may answer at once
	if _, err := x.log.Append(eventlog.Call, end, encode(r)); err != nil {
		x.calls.withdraw(r.ID)
		return fmt.Errorf("the log of this run is full")
	}
	x.calls.limitWait(r.ID, x.expire)
	if show := x.Request.Calls.Call; show != nil {
		show(sandbox.Call{ID: r.ID, Name: r.Name, Arguments: r.Arguments, Timeout: r.Timeout})
	}
	for _, tool := range x.Request.Calls.Tools {
		if tool.Name == r.Name && tool.Call != nil {
			x.sandbox.spawn(func() { x.answerBy(tool, r) }) // else the sandbox ends
		}
	}
	return nil
}

// answerBy answers a call by the function of its tool.
func (x *Run) answerBy(tool sandbox.Tool, r callRecord) {
	ctx, cancel := context.WithTimeout(x.calls.life, r.Timeout)
	defer cancel()
	defer context.AfterFunc(x.sandbox.life, cancel)()
	err := x.Answer(ctx, r.ID, toolcall.Invoke(ctx, tool, r.Arguments))
	if kind := sandbox.KindOf(err); err != nil && (kind == sandbox.TooLarge || kind == sandbox.Invalid) {
		_ = x.Answer(ctx, r.ID, sandbox.CallAnswer{Error: err.Error()}) // or it timed out meanwhile
	}
}

// await makes a call one that waits, without a limit.
func (c *calls) await(r callRecord) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOver() {
		return
	}
	r.Arguments = nil // up to 1 MiB, which the log has
	c.pending[r.ID] = &call{record: r}
	c.clock.stop(len(c.pending))
}

// limitWait limits the wait of a call, if it still waits.
func (c *calls) limitWait(id uint64, expire func(uint64)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if p := c.pending[id]; p != nil {
		p.late = time.AfterFunc(p.record.Timeout, func() { expire(id) })
	}
}

// withdraw forgets a call that nobody can see.
func (c *calls) withdraw(id uint64) {
	c.mu.Lock()
	defer c.mu.Unlock()
	delete(c.pending, id)
	c.clock.start(len(c.pending))
}

// expire answers a call whose answer did not come in time.
func (x *Run) expire(id uint64) {
	r, err := x.calls.settle(id, sandbox.CallAnswer{Error: fmt.Sprintf("TimeoutError: no answer in %s",
		x.calls.set.Limits.Timeout)})
	if err == nil { // or an answer came meanwhile
		x.queueAnswer(r)
	}
}

// waits returns why a call does not wait for an answer, or nil.
func (c *calls) waits(id uint64) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.pending[id] == nil {
		return c.noCall(id)
	}
	return nil
}

// settle takes the answer to a call that waits.
func (c *calls) settle(id uint64, a sandbox.CallAnswer) (*reply, error) {
	c.mu.Lock()
	p := c.pending[id]
	if p == nil {
		defer c.mu.Unlock()
		return nil, c.noCall(id)
	}
	limits := c.set.Limits
	size := int64(len(a.Value) + len(a.Error))
	if a.Error == "" && c.bytes+size > limits.Bytes {
		defer c.mu.Unlock()
		return nil, &sandbox.Error{Kind: sandbox.TooLarge, Op: "value",
			Msg: "with it, the calls of the run have more than " + sandbox.FormatBytes(limits.Bytes),
			Fix: "answer with an error, or raise call_limits.bytes"}
	}
	c.bytes += size
	p.stop()
	delete(c.pending, id)
	c.clock.start(len(c.pending))
	c.mu.Unlock()
	return &reply{record: answerRecord{ID: id, Driver: p.record.Driver, Name: p.record.Name, Value: a.Value,
		Error: a.Error}, sent: make(chan struct{})}, nil
}

// noCall is the error of an answer to a call that does not wait. The caller holds mu.
func (c *calls) noCall(id uint64) error {
	op := fmt.Sprintf("call %d", id)
	switch {
	case c.isOver():
		return &sandbox.Error{Kind: sandbox.NotFound, Op: op, Msg: "its run has ended"}
	case id == 0 || id > c.count:
		return &sandbox.Error{Kind: sandbox.NotFound, Op: op, Msg: "the run made no such call"}
	}
	return &sandbox.Error{Kind: sandbox.Exists, Op: op,
		Msg: "it has an answer already: of another client, or an error because none came in time",
		Fix: "ignore it: the code got one answer"}
}

// queueAnswer logs an answer, for the next server, and puts it behind the others for the driver. A refusal is in the
// log before later reports: the next server reads only what comes after these.
func (x *Run) queueAnswer(r *reply) {
	c := x.calls
	c.mu.Lock()
	defer c.mu.Unlock()
	r.record.Request = c.after
	r.unlogged = x.logAnswer(r)
	if sandbox.KindOf(r.unlogged) == sandbox.TooLarge { // the code learns it, and the next server would not
		r.record.Value, r.record.Error = nil, "the log of this run is full"
		if r.unlogged = x.logAnswer(r); sandbox.KindOf(r.unlogged) == sandbox.TooLarge {
			r.unlogged = nil
		}
	}
	c.after += uint64(r.record.frame().Size())
	c.queued = append(c.queued, r)
	c.wake()
}

// wake reports that answers may be queued.
func (c *calls) wake() {
	select {
	case c.outbox <- struct{}{}:
	default:
	}
}

// next returns the oldest answer that is to be sent, or nil.
func (c *calls) next() *reply {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.queued) == 0 {
		return nil
	}
	r := c.queued[0]
	c.queued = c.queued[1:]
	return r
}

// close ends the calls with their run.
func (c *calls) close() {
	if c == nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.isOver() {
		return
	}
	c.end()
	for id, p := range c.pending {
		p.stop()
		delete(c.pending, id)
	}
	c.clock.start(0)
}

func (c *calls) isOver() bool { return c.life.Err() != nil }

// Answer answers a call of a tool, and returns once the driver has the answer. It returns NotFound for a call that the
// run did not make, or once the run has ended; Exists if the call has an answer; TooLarge and Invalid for the answer.
func (x *Run) Answer(ctx context.Context, id uint64, a sandbox.CallAnswer) error {
	if x.calls == nil {
		return &sandbox.Error{Kind: sandbox.NotFound, Op: fmt.Sprintf("call %d", id), Msg: "the run has no tools"}
	}
	if err := x.calls.waits(id); err != nil {
		return err
	}
	a, err := x.calls.set.Answer(a)
	if err != nil {
		return err
	}
	r, err := x.calls.settle(id, a)
	if err != nil {
		return err
	}
	x.queueAnswer(r)
	select {
	case <-r.sent:
	case <-x.calls.life.Done():
	case <-ctx.Done():
	}
	return nil
}

// passAnswers sends answers to the driver until ctx ends. Each is on the disk first.
func (x *Run) passAnswers(ctx context.Context, in *interpreter) {
	if x.calls == nil {
		return
	}
	for {
		select {
		case <-x.calls.outbox:
		case <-x.calls.life.Done():
			return
		case <-ctx.Done():
			return
		}
		for r := x.calls.next(); r != nil && !x.calls.isOver(); r = x.calls.next() {
			if !x.passAnswer(ctx, in, r) {
				return
			}
		}
	}
}

// passAnswer sends one answer, and reports whether another can follow.
func (x *Run) passAnswer(ctx context.Context, in *interpreter, r *reply) bool {
	err := r.unlogged
	if err == nil {
		err = x.log.Sync()
	}
	if err != nil {
		x.sandbox.engine.log.Warn("could not log an answer", "sandbox", x.sandbox.id, "run", x.id, "err", err)
		return false
	}
	x.passCode(ctx, in, r.record.frame().Append(nil))
	if show := x.Request.Calls.Answered; show != nil {
		show(sandbox.Call{ID: r.record.ID, Name: r.record.Name}, r.record.Error)
	}
	if r.sent != nil {
		close(r.sent)
	}
	return true
}

func (x *Run) logAnswer(r *reply) error {
	_, err := x.log.Append(eventlog.Answered, r.end, encode(r.record))
	return err
}

// decodeCall parses the data of a call or of an answer.
func (e *Event) decodeCall() (err error) {
	var call callRecord
	var answer answerRecord
	if e.Kind == eventlog.Call {
		err = json.Unmarshal(e.Data, &call)
		e.Call = &sandbox.Call{ID: call.ID, Name: call.Name, Arguments: call.Arguments, Timeout: call.Timeout}
	} else {
		err = json.Unmarshal(e.Data, &answer)
		e.Answered = &Answered{ID: answer.ID, Name: answer.Name, Error: answer.Error}
	}
	if e.Data = nil; err != nil {
		return &sandbox.Error{Op: "read an event", Err: err}
	}
	return nil
}

// paused returns how long the clock of the run has stopped.
func (c *calls) paused() time.Duration {
	if c == nil {
		return 0
	}
	return c.clock.paused()
}
