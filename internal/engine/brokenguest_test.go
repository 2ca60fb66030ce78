package engine_test

import (
	"context"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// redialPause is the engine's.
const redialPause = 50 * time.Millisecond

// scripted is a backend whose guests answer as a test wants. Their boxes are those of another backend.
type scripted struct {
	sandbox.Backend
	calls  func(*scriptedCall) // nil answers each with Done
	hangUp atomic.Bool         // after each Welcome
	dials  atomic.Int64
}

func (b *scripted) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	box, err := b.Backend.Create(ctx, spec)
	return &scriptedBox{box, b}, err
}

type scriptedBox struct {
	sandbox.Box
	backend *scripted
}

func (b *scriptedBox) Dial(context.Context) (net.Conn, error) {
	b.backend.dials.Add(1)
	host, conn := net.Pipe()
	go b.backend.serve(conn)
	return host, nil
}

func (b *scripted) serve(conn net.Conn) {
	defer conn.Close()
	if _, err := io.ReadFull(conn, make([]byte, len(guest.Magic)+1+guest.KeySize)); err != nil {
		return
	}
	if _, err := conn.Write(binary.LittleEndian.AppendUint64([]byte(guest.MagicReply), 1)); err != nil {
		return
	}
	session := wire.NewSession(conn, wire.Guest)
	defer session.Close()
	for {
		st, err := session.Accept()
		if err != nil {
			return
		}
		go b.answer(&scriptedCall{Stream: st, session: session})
	}
}

func (b *scripted) answer(c *scriptedCall) {
	defer c.Close()
	kind, body, err := c.Recv()
	c.kind, c.body = guest.Type(kind), body
	switch {
	case err != nil:
	case c.kind == guest.TypeHello:
		c.send(&guest.Welcome{Version: guest.Version, Generation: 1})
		if b.hangUp.Load() {
			c.cut()
		}
	case b.calls != nil:
		b.calls(c)
	default:
		c.send(&guest.Done{})
	}
}

// scriptedCall is one request to a scripted guest.
type scriptedCall struct {
	*wire.Stream
	session *wire.Session
	kind    guest.Type
	body    []byte
}

func (c *scriptedCall) send(m guest.Message) {
	_ = c.Send(uint8(m.MessageType()), guest.Append(nil, m))
}

func (c *scriptedCall) notFound() {
	c.send(&guest.Failed{Kind: sandbox.NotFound, Op: "execution", Msg: "there is no such execution"})
}

// cut ends the connection.
func (c *scriptedCall) cut() {
	c.session.Flush()
	_ = c.session.Close()
}

func newScripted(t *testing.T, calls func(*scriptedCall)) (*rig, *scripted) {
	language := shell
	language.Driver = &sandbox.Driver{Argv: func(program string) []string { return []string{program} }}
	rig := newRig(t, engine.Config{Languages: []sandbox.Language{language}})
	b := &scripted{Backend: rig.faults.Backend, calls: calls}
	rig.faults.Backend = b
	return rig, b
}

// paced checks that a number of events in some time were redialPause apart.
func paced(t *testing.T, what string, n int64, in time.Duration) {
	t.Helper()
	if most := int64(in/redialPause) + 3; n < 2 || n > most {
		t.Errorf("%d %s in %s; want 2 to %d", n, what, in, most)
	}
}

// TestGuestHangsUp: a guest that ends each connection at once does not keep the server busy.
func TestGuestHangsUp(t *testing.T) {
	rig, b := newScripted(t, nil)
	b.hangUp.Store(true)
	began := time.Now()
	rig.make(t, engine.Create{})
	time.Sleep(10 * redialPause)
	paced(t, "connections", b.dials.Load(), time.Since(began))
}

// TestGuestBreaksStreams: nor does a guest that breaks the protocol after each piece of output.
func TestGuestBreaksStreams(t *testing.T) {
	var streams atomic.Int64
	rig, _ := newScripted(t, func(c *scriptedCall) {
		at := guest.Attach{}
		switch c.kind {
		case guest.TypeStart:
			c.send(&guest.Started{PID: 2})
		case guest.TypeAttach:
			_ = guest.Parse(c.body, &at)
		default:
			c.send(&guest.Done{})
			return
		}
		streams.Add(1)
		c.send(&guest.Output{Stream: sandbox.Stdout, Offset: at.Stdout, Data: []byte("x")})
		c.send(&guest.Done{})
	})
	ctx, cancel := context.WithTimeout(t.Context(), 10*redialPause)
	defer cancel()
	began := time.Now()
	if r, err := rig.Run(ctx, sh("true")); err != nil || r.Status != sandbox.StatusCanceled {
		t.Errorf("%+v, %v", r, err)
	}
	paced(t, "streams", streams.Load(), time.Since(began))
}

// process is the only process of a scripted guest.
type process struct {
	starting, goOn chan struct{} // the first Start came; it may finish
	started, ended chan struct{}
	start, end     sync.Once
	misses         atomic.Int64 // calls before the process was found
	signal         func(*scriptedCall) bool
}

func newProcess() *process {
	return &process{starting: make(chan struct{}), goOn: make(chan struct{}), started: make(chan struct{}),
		ended: make(chan struct{})}
}

func has(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

// follow sends the exit record.
func (p *process) follow(c *scriptedCall, id string) {
	select {
	case <-p.ended:
		c.send(&guest.Exited{ID: id})
	case <-c.Done():
	}
}

func (p *process) serve(c *scriptedCall) {
	var id guest.Wait // the first field of all these requests
	_ = guest.Parse(c.body, &id)
	switch c.kind {
	case guest.TypeStart:
		first := false
		p.start.Do(func() { first = true; close(p.starting) })
		if !first {
			c.send(&guest.Failed{Kind: sandbox.Exists, Op: "start", Msg: "an execution with this id exists"})
			return
		}
		<-p.goOn
		close(p.started)
		c.send(&guest.Started{PID: 2})
		p.follow(c, id.ID)
	case guest.TypeAttach, guest.TypeWait, guest.TypeAck, guest.TypeSignal:
		switch {
		case !has(p.started):
			p.misses.Add(1)
			c.notFound()
		case c.kind == guest.TypeAttach, c.kind == guest.TypeWait:
			p.follow(c, id.ID)
		case c.kind == guest.TypeSignal && p.signal != nil && !p.signal(c):
		default:
			if c.kind == guest.TypeSignal {
				p.end.Do(func() { close(p.ended) })
			}
			c.send(&guest.Done{})
		}
	default:
		c.send(&guest.Done{})
	}
}

// TestCancelDuringStart: a cancellation while the guest starts the process leaves no process in the sandbox.
func TestCancelDuringStart(t *testing.T) {
	p := newProcess()
	rig, _ := newScripted(t, p.serve)
	x, err := rig.make(t, engine.Create{}).Start(within(t), command("true"))
	if err != nil {
		t.Fatal(err)
	}
	<-p.starting
	x.Cancel()
	select {
	case <-x.Done():
	case <-time.After(2 * redialPause):
	}
	close(p.goOn)
	if r, err := x.Wait(within(t)); err != nil || r.Status != sandbox.StatusCanceled {
		t.Errorf("%+v, %v", r, err)
	}
	if !has(p.ended) {
		t.Error("the process was left")
	}
}

// TestCancelDuringContextStart: nor does a cancellation while the guest starts the interpreter of a context.
func TestCancelDuringContextStart(t *testing.T) {
	p := newProcess()
	rig, _ := newScripted(t, p.serve)
	s := rig.make(t, engine.Create{})
	ctx, cancel := context.WithCancel(within(t))
	go func() {
		<-p.starting
		cancel()
		time.Sleep(2 * redialPause)
		close(p.goOn)
	}()
	if _, err := s.CreateContext(ctx, engine.ContextRequest{Name: "c"}); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if !has(p.ended) {
		t.Error("the interpreter was left")
	}
	if err := s.Ended(); err != nil {
		t.Error(err)
	}
}

// TestCancelDuringFailedStart: after an answer that nothing was started, a canceled run waits for no process.
func TestCancelDuringFailedStart(t *testing.T) {
	starting, goOn := make(chan struct{}), make(chan struct{})
	rig, _ := newScripted(t, func(c *scriptedCall) {
		switch c.kind {
		case guest.TypeStart:
			close(starting)
			<-goOn
			c.send(&guest.Failed{Kind: sandbox.Internal, Op: "start", Msg: "no memory"})
		case guest.TypeAck, guest.TypeSignal, guest.TypeWait:
			c.notFound()
		default:
			c.send(&guest.Done{})
		}
	})
	x, err := rig.make(t, engine.Create{}).Start(within(t), command("true"))
	if err != nil {
		t.Fatal(err)
	}
	<-starting
	x.Cancel()
	time.Sleep(redialPause)
	close(goOn)
	began := time.Now()
	if r, err := x.Wait(within(t)); err != nil || r.Status != sandbox.StatusCanceled {
		t.Errorf("%+v, %v", r, err)
	}
	if d := time.Since(began); d > 5*time.Second {
		t.Errorf("the end took %s", d)
	}
}

// TestStartUnanswered: a run whose Start got no answer on any connection, while the guest still works on it, leaves no
// process.
func TestStartUnanswered(t *testing.T) {
	p := newProcess()
	rig, _ := newScripted(t, func(c *scriptedCall) {
		switch {
		case c.kind != guest.TypeStart:
			p.serve(c)
		case !has(p.starting):
			go c.cut()
			p.serve(c)
		default:
			c.cut()
		}
	})
	go func() {
		<-p.starting
		for i := 0; i < 1000 && p.misses.Load() < 2; i++ {
			time.Sleep(redialPause / 5)
		}
		close(p.goOn)
	}()
	if r := do(t, rig.make(t, engine.Create{}), command("true")); r.Status != sandbox.StatusLost {
		t.Errorf("%+v", r)
	}
	if !has(p.ended) {
		t.Error("the process was left")
	}
}

// TestBreaksDuringStart: a Start that is repeated on a new connection, while the guest still works on the first, finds
// the process.
func TestBreaksDuringStart(t *testing.T) {
	p := newProcess()
	p.end.Do(func() { close(p.ended) })
	rig, _ := newScripted(t, func(c *scriptedCall) {
		if c.kind == guest.TypeStart && !has(p.starting) {
			go c.cut()
		}
		p.serve(c)
	})
	go func() {
		<-p.starting
		for i := 0; i < 100 && p.misses.Load() < 2; i++ {
			time.Sleep(redialPause / 5)
		}
		close(p.goOn)
	}()
	if r := do(t, rig.make(t, engine.Create{}), command("true")); r.Status != sandbox.StatusSucceeded {
		t.Errorf("%+v", r)
	}
}

// TestPanicDuringRun: a run that panics on the host leaves no process.
func TestPanicDuringRun(t *testing.T) {
	p := newProcess()
	rig, _ := newScripted(t, func(c *scriptedCall) {
		if c.kind != guest.TypeStart {
			p.serve(c)
			return
		}
		close(p.started)
		c.send(&guest.Started{PID: 2})
		c.send(&guest.Output{Stream: sandbox.Stdout, Data: []byte("x")})
		p.follow(c, "")
	})
	request := command("true")
	request.Request.Output = func(sandbox.Stream, []byte) { panic("a defect") }
	if r, err := rig.make(t, engine.Create{}).Run(within(t), request); sandbox.KindOf(err) != sandbox.Internal {
		t.Errorf("%+v, %v", r, err)
	}
	if !has(p.ended) {
		t.Error("the process was left")
	}
}

// TestKillRetried: a kill is repeated over as many connections as it needs.
func TestKillRetried(t *testing.T) {
	p := newProcess()
	close(p.goOn)
	var signals atomic.Int64
	p.signal = func(c *scriptedCall) bool {
		if signals.Add(1) > 7 {
			return true
		}
		c.cut()
		return false
	}
	rig, _ := newScripted(t, p.serve)
	x, err := rig.make(t, engine.Create{}).Start(within(t), command("true"))
	if err != nil {
		t.Fatal(err)
	}
	<-p.started
	x.Cancel()
	if r, err := x.Wait(within(t)); err != nil || r.Status != sandbox.StatusCanceled {
		t.Errorf("%+v, %v", r, err)
	}
	if !has(p.ended) {
		t.Errorf("the process was left after %d signals", signals.Load())
	}
}

// TestUnkillable: a guest that ends no process of a lost run loses its sandbox, after one killTimeout.
func TestUnkillable(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: takes 10 s")
	}
	rig, _ := newScripted(t, func(c *scriptedCall) {
		switch c.kind {
		case guest.TypeStart:
			c.send(&guest.Started{PID: 2})
			c.send(&guest.Failed{Kind: sandbox.Internal, Op: "output", Msg: "broken"})
		case guest.TypeSignal, guest.TypeWait:
			<-c.Done()
		default:
			c.send(&guest.Done{})
		}
	})
	s := rig.make(t, engine.Create{})
	began := time.Now()
	if r := do(t, s, command("true")); r.Status != sandbox.StatusLost {
		t.Errorf("%+v", r)
	}
	if d := time.Since(began); d > 15*time.Second {
		t.Errorf("the slot was held for %s", d)
	}
	eventually(t, "the end of the sandbox", func() bool { return s.Ended() != nil })
}
