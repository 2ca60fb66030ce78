package server

import (
	"strconv"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (s *Server) attach(c *call, m *guest.Attach) error {
	p, err := s.table.find(m.ID)
	if err != nil {
		return err
	}
	return s.follow(c, p, [streams]uint64{m.Stdout, m.Stderr, m.Channel, m.Background})
}

// follower sends one process's output on one call.
type follower struct {
	c    *call
	p    *process
	next [streams]uint64 // offsets of what is to be sent
	gone bool            // the host has canceled the call; guarded by the process's mu
	buf  []byte
}

// follow sends the output from the given offsets, then the exit record.
func (s *Server) follow(c *call, p *process, from [streams]uint64) error {
	f := &follower{c: c, p: p, next: from}
	if err := f.check(); err != nil {
		return err
	}
	listening := make(chan struct{})
	go func() {
		defer close(listening)
		f.listen()
	}()
	err := f.send()
	if err != nil {
		c.st.Reset() // ends listen; otherwise the host ends it
	}
	<-listening
	return err
}

// check checks that the guest still keeps the requested output.
func (f *follower) check() error {
	f.p.mu.Lock()
	defer f.p.mu.Unlock()
	for i, o := range f.p.outputs {
		if o == nil {
			continue
		}
		if f.next[i] > o.ring.End() {
			return &guest.Failed{Kind: sandbox.Invalid, Op: "attach", Msg: o.stream.String() +
				" is shorter than this offset"}
		}
		if f.next[i] < o.ring.Start() && !o.lossy {
			return &guest.Failed{Kind: sandbox.NotFound, Op: "attach", Value: o.ring.Start(), Stream: o.stream,
				Msg: o.stream.String() + " is kept from offset " + strconv.FormatUint(o.ring.Start(), 10)}
		}
	}
	return nil
}

// listen handles acknowledgements on the call, until the host ends its side.
func (f *follower) listen() {
	for {
		typ, body, err := f.c.recv()
		var m guest.Ack
		if err == nil && typ == guest.TypeAck && guest.Parse(body, &m) == nil && m.ID == f.p.id {
			f.p.acknowledge(&m)
			continue
		}
		if err == nil {
			f.c.st.Reset() // an unexpected message
		}
		if f.c.Wanted() == nil {
			return // an orderly end
		}
		f.p.mu.Lock()
		f.gone = true
		f.p.changed.Broadcast()
		f.p.mu.Unlock()
		return
	}
}

// send sends output as it comes, then the exit record.
func (f *follower) send() error {
	turn := 0
	for {
		body, exited := f.wait(turn)
		switch {
		case body != nil:
			if err := f.c.st.Send(uint8(guest.TypeOutput), body); err != nil {
				return errCanceled
			}
			turn = (turn + 1) % streams
		case exited != nil:
			return f.c.answer(exited)
		default:
			return errCanceled
		}
	}
}

// wait returns the next piece of output, from each stream in turn, or the exit record after the last piece. It returns
// neither once the call has ended.
func (f *follower) wait(turn int) ([]byte, *guest.Exited) {
	p := f.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if f.gone {
			return nil, nil
		}
		for k := range streams {
			i := (turn + k) % streams
			o := p.outputs[i]
			if o == nil {
				continue
			}
			f.next[i] = max(f.next[i], o.ring.Start()) // skip output that was dropped, or acknowledged by another host
			if f.next[i] < o.ring.End() {
				return f.take(i, o), nil
			}
		}
		if p.exited != nil || p.forgotten {
			return nil, p.exited
		}
		p.changed.Wait()
	}
}

// take copies a piece of output into a message.
func (f *follower) take(i int, o *output) []byte {
	n := int(min(o.ring.End()-f.next[i], guest.MaxData))
	m := guest.Output{Stream: o.stream, Offset: f.next[i]}
	if o.stream == sandbox.Channel {
		before := o.marks.of(f.next[i] + uint64(n)) // the mark of its last byte, the highest
		m.BeforeStdout, m.BeforeStderr = before.stdout, before.stderr
	}
	f.buf = m.AppendHead(f.buf[:0], n)
	first, second := o.ring.At(f.next[i], n)
	f.buf = append(append(f.buf, first...), second...)
	f.next[i] += uint64(n)
	return f.buf
}

// acknowledge drops output that the host has received.
func (p *process) acknowledge(m *guest.Ack) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, offset := range [streams]uint64{m.Stdout, m.Stderr, m.Channel, m.Background} {
		if o := p.outputs[i]; o != nil {
			o.forget(offset)
		}
	}
}

func (s *Server) ack(c *call, m *guest.Ack) error {
	p, err := s.table.find(m.ID)
	if err != nil {
		return err
	}
	p.acknowledge(m)
	if m.Exit {
		p.mu.Lock()
		running := !p.reaped
		p.mu.Unlock()
		if running {
			return invalid("acknowledge "+m.ID, "the execution has not ended")
		}
		s.table.forget(p)
		p.discard()
	}
	return c.answer(&guest.Done{})
}

func (s *Server) wait(c *call, m *guest.Wait) error {
	p, err := s.table.find(m.ID)
	if err != nil {
		return err
	}
	var exited *guest.Exited
	if !p.await(c, func() bool { exited = p.exited; return exited != nil || p.forgotten }) || exited == nil {
		return errCanceled
	}
	return c.answer(exited)
}

func (s *Server) list(c *call) error {
	var m guest.Processes
	for _, p := range s.table.all() {
		m.Processes = append(m.Processes, p.info())
	}
	return c.answer(&m)
}
