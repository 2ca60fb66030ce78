package client

import (
	"context"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// ackStep is how much output may accumulate before it is acknowledged, if the guest's buffer is at least four times as
// large.
const ackStep = 64 << 10

// Process is an execution in the sandbox, with one stream of its output.
type Process struct {
	c    *Client
	id   string
	pid  int32
	call *call
	step uint64 // acknowledge after so many bytes; 0: whenever no other message is buffered

	parked  bool // it was parked before its start
	channel bool // pieces of the channel are accepted

	mu          sync.Mutex   // guards taken
	taken       guest.Attach // end of the received output
	stdin       sync.Mutex   // held during Input; guards the two below
	stdinOffset uint64
	stdinKnown  bool
}

// Start starts a process. If ctx ends first, it is unknown whether the process started: call List, or start it again,
// which never runs it twice.
func (c *Client) Start(ctx context.Context, m guest.Start) (*Process, error) {
	m.Follow = true
	k, err := c.begin(ctx, "guest: start", &m, false)
	if err != nil {
		return nil, err
	}
	var started guest.Started
	if err := k.expect(&started); err != nil {
		k.close()
		return nil, err
	}
	if err := k.unbind(); err != nil {
		k.close()
		return nil, err
	}
	return &Process{c: c, id: m.ID, pid: started.PID, parked: started.Parked, call: k, step: stepFor(m.Buffer),
		channel:    m.Channel,
		taken:      guest.Attach{ID: m.ID},
		stdinKnown: true}, nil
}

// Park starts an interpreter that waits for its program, and returns once it waits.
func (c *Client) Park(ctx context.Context, m guest.Park) error {
	return c.roundTrip(ctx, "guest: park", &m, new(guest.Started))
}

// stepFor returns how much output may accumulate with a guest's buffer of this size; 0 is the guest's default.
func stepFor(buffer uint32) uint64 {
	if buffer == 0 {
		buffer = guest.DefaultBuffer
	}
	return min(ackStep, uint64(buffer)/4)
}

// Attach resumes an execution's output at the given offsets, of any stream, including the channel. Stream returns the
// error if the output is dropped (see Forgotten) or the execution is unknown.
func (c *Client) Attach(ctx context.Context, m guest.Attach) (*Process, error) {
	k, err := c.begin(ctx, "guest: attach", &m, false)
	if err != nil {
		return nil, err
	}
	if err := k.unbind(); err != nil {
		k.close()
		return nil, err
	}
	return &Process{c: c, id: m.ID, call: k, channel: true, taken: m}, nil
}

func (p *Process) ID() string { return p.id }

// PID is the process's id inside the sandbox, 0 after Attach.
func (p *Process) PID() int32 { return p.pid }

// Offsets returns the end of the received output, to attach again after a lost connection.
func (p *Process) Offsets() guest.Attach {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.taken
}

// Parked reports whether the process is the parked interpreter.
func (p *Process) Parked() bool { return p.parked }

// Close closes the output stream. The process runs on.
func (p *Process) Close() { p.call.close() }

// Stream passes output to take, in order within each stream, until the exit record. The data is valid only during the
// call. A piece of the channel may arrive before the output that its marks cover, and a hostile guest sends any marks.
// If take returns an error, Stream returns it and the piece counts as not received. With ack the guest may drop
// received output; without it, a process blocks once the guest's buffer is full. Stream is called once.
func (p *Process) Stream(ctx context.Context, take func(guest.Output) error, ack bool) (guest.Exited, error) {
	k := p.call
	k.op = "guest: output"
	k.bind(ctx)
	defer k.close()
	acked := guest.Attach{}
	if ack { // the previous connection may have lost an acknowledgement for which the process waits
		if err := p.acknowledge(&acked); err != nil {
			return guest.Exited{}, err
		}
	}
	for {
		typ, body, err := k.must()
		if err != nil {
			return guest.Exited{}, err
		}
		switch typ {
		case guest.TypeOutput:
			err = p.output(body, take)
		case guest.TypeExited:
			var m guest.Exited
			if err := guest.Parse(body, &m); err != nil || m.ID != p.id {
				return guest.Exited{}, k.wrap(wire.ErrProtocol)
			}
			return m, nil
		default:
			err = k.wrap(wire.ErrProtocol)
		}
		if err != nil {
			return guest.Exited{}, err
		}
		if ack {
			if err := p.acknowledge(&acked); err != nil {
				return guest.Exited{}, err
			}
		}
	}
}

// output checks one piece of output and passes it on.
func (p *Process) output(body []byte, take func(guest.Output) error) error {
	var m guest.Output
	if err := guest.Parse(body, &m); err != nil || len(m.Data) == 0 || len(m.Data) > guest.MaxData {
		return p.call.wrap(wire.ErrProtocol)
	}
	var next *uint64
	switch {
	case m.Stream == sandbox.Channel && p.channel:
		next = &p.taken.Channel
	case m.BeforeStdout != 0 || m.BeforeStderr != 0:
	case m.Stream == sandbox.Background && p.channel:
		next = &p.taken.Background
	case m.Stream == sandbox.Stdout:
		next = &p.taken.Stdout
	case m.Stream == sandbox.Stderr:
		next = &p.taken.Stderr
	}
	if next == nil {
		return p.call.wrap(wire.ErrProtocol)
	}
	end := m.Offset + uint64(len(m.Data))
	if m.Offset < *next || end < m.Offset { // a gap is output that the guest had to drop
		return p.call.wrap(wire.ErrProtocol)
	}
	if err := take(m); err != nil {
		return err
	}
	p.mu.Lock()
	*next = end
	p.mu.Unlock()
	return nil
}

// acknowledge reports the received output, rarely enough to be cheap and often enough that the guest's buffer never
// fills.
func (p *Process) acknowledge(acked *guest.Attach) error {
	now := p.Offsets()
	gap := max(now.Stdout-acked.Stdout, now.Stderr-acked.Stderr, now.Channel-acked.Channel)
	if gap == 0 || gap < p.step || p.step == 0 && gap < ackStep && p.call.st.Buffered() > 0 {
		return nil
	}
	*acked = now
	return p.call.send(&guest.Ack{ID: p.id, Stdout: now.Stdout, Stderr: now.Stderr, Channel: now.Channel,
		Background: now.Background}, false)
}

// Ack lets the guest drop output before the offsets, for callers of Stream without ack. take may call it.
func (p *Process) Ack(m guest.Ack) error {
	m.ID, m.Exit = p.id, false
	return p.call.send(&m, false)
}

// Input sends data to stdin, and returns once the process's pipe holds it. After an error, call it again with the same
// data on a new connection's Process: the guest skips data that it has accepted.
func (p *Process) Input(ctx context.Context, data []byte) error {
	p.stdin.Lock()
	defer p.stdin.Unlock()
	for len(data) > 0 {
		n := min(len(data), guest.MaxData)
		if err := p.input(ctx, data[:n], false); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}

// BeginInput sends data as Input does, and returns what waits for the answer. It returns nil, and has sent nothing, if
// it had to wait before.
func (p *Process) BeginInput(ctx context.Context, data []byte) (answer func() error) {
	if len(data) > guest.MaxData || !p.stdin.TryLock() {
		return nil
	}
	m := guest.Input{ID: p.id, Offset: p.stdinOffset, Data: data}
	var k *call
	if p.stdinKnown {
		k = p.c.tryBegin(ctx, opInput, &m)
	}
	if k == nil {
		p.stdin.Unlock()
		return nil
	}
	return func() error {
		defer p.stdin.Unlock()
		defer k.close()
		at, err := k.accepted(&m)
		if err == nil {
			p.stdinOffset = at
		}
		return err
	}
}

// CloseStdin closes stdin. On a terminal it types the end-of-file character.
func (p *Process) CloseStdin(ctx context.Context) error {
	p.stdin.Lock()
	defer p.stdin.Unlock()
	return p.input(ctx, nil, true)
}

func (p *Process) input(ctx context.Context, data []byte, eof bool) error {
	if !p.stdinKnown {
		at, err := p.c.Input(ctx, guest.Input{ID: p.id})
		if err != nil {
			return err
		}
		p.stdinOffset, p.stdinKnown = at, true
	}
	at, err := p.c.Input(ctx, guest.Input{ID: p.id, Offset: p.stdinOffset, Data: data, EOF: eof})
	if err != nil {
		return err
	}
	p.stdinOffset = at
	return nil
}

// Signal sends a signal to the process, its group or its execution.
func (p *Process) Signal(ctx context.Context, signal int32, scope guest.SignalScope) error {
	return p.c.Signal(ctx, guest.Signal{ID: p.id, Signal: signal, Scope: scope})
}

func (p *Process) Resize(ctx context.Context, rows, cols uint16) error {
	return p.c.Resize(ctx, guest.Resize{ID: p.id, Rows: rows, Cols: cols})
}
