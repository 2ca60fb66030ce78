package guest

import (
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// MessageType returns TypeStarted.
func (*Started) MessageType() Type { return TypeStarted }

// Append appends the message's body to b.
func (m *Started) Append(b []byte) []byte {
	return wire.AppendInt(b, 1, int64(m.PID))
}

// Parse reads a body.
func (m *Started) Parse(body []byte) error {
	*m = Started{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.PID = f.Int32()
		}
	})
}

// MessageType returns TypeAttach.
func (*Attach) MessageType() Type { return TypeAttach }

// Append appends the message's body to b.
func (m *Attach) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.ID)
	b = wire.AppendUint(b, 2, m.Stdout)
	return wire.AppendUint(b, 3, m.Stderr)
}

// Parse reads a body.
func (m *Attach) Parse(body []byte) error {
	*m = Attach{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.ID = f.String()
		case 2:
			m.Stdout = f.Uint64()
		case 3:
			m.Stderr = f.Uint64()
		}
	})
}

// MessageType returns TypeOutput.
func (*Output) MessageType() Type { return TypeOutput }

// Append appends the message's body to b.
func (m *Output) Append(b []byte) []byte {
	if len(m.Data) == 0 {
		return wire.AppendUint(wire.AppendUint(b, 1, uint64(m.Stream)), 2, m.Offset)
	}
	return append(m.AppendHead(b, len(m.Data)), m.Data...)
}

// AppendHead appends what stands before n bytes of data, so that the sender can put them behind it without another copy.
func (m *Output) AppendHead(b []byte, n int) []byte {
	b = wire.AppendUint(b, 1, uint64(m.Stream))
	b = wire.AppendUint(b, 2, m.Offset)
	return wire.AppendHead(b, 3, n)
}

// Parse reads a body.
func (m *Output) Parse(body []byte) error {
	*m = Output{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Stream = sandbox.Stream(f.Uint8())
		case 2:
			m.Offset = f.Uint64()
		case 3:
			m.Data = f.Bytes()
		}
	})
}

// MessageType returns TypeExited.
func (*Exited) MessageType() Type { return TypeExited }

// Append appends the message's body to b.
func (m *Exited) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.ID)
	b = wire.AppendInt(b, 2, int64(m.Code))
	b = wire.AppendInt(b, 3, int64(m.Signal))
	b = wire.AppendBool(b, 4, m.TimedOut)
	b = wire.AppendBool(b, 5, m.Signaled)
	b = wire.AppendUint(b, 6, uint64(m.ForeignKill))
	b = wire.AppendUint(b, 7, uint64(m.Wall))
	b = wire.AppendUint(b, 8, uint64(m.CPU))
	b = wire.AppendUint(b, 9, m.MaxRSS)
	b = wire.AppendUint(b, 10, m.Stdout)
	b = wire.AppendUint(b, 11, m.Stderr)
	return wire.AppendBool(b, 12, m.Incomplete)
}

// Parse reads a body.
func (m *Exited) Parse(body []byte) error {
	*m = Exited{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.ID = f.String()
		case 2:
			m.Code = f.Int32()
		case 3:
			m.Signal = f.Int32()
		case 4:
			m.TimedOut = f.Bool()
		case 5:
			m.Signaled = f.Bool()
		case 6:
			m.ForeignKill = f.Uint32()
		case 7:
			m.Wall = f.Duration()
		case 8:
			m.CPU = f.Duration()
		case 9:
			m.MaxRSS = f.Uint64()
		case 10:
			m.Stdout = f.Uint64()
		case 11:
			m.Stderr = f.Uint64()
		case 12:
			m.Incomplete = f.Bool()
		}
	})
}

// MessageType returns TypeInput.
func (*Input) MessageType() Type { return TypeInput }

// Append appends the message's body to b.
func (m *Input) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.ID)
	b = wire.AppendUint(b, 2, m.Offset)
	b = wire.AppendBytes(b, 3, m.Data)
	return wire.AppendBool(b, 4, m.EOF)
}

// Parse reads a body.
func (m *Input) Parse(body []byte) error {
	*m = Input{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.ID = f.String()
		case 2:
			m.Offset = f.Uint64()
		case 3:
			m.Data = f.Bytes()
		case 4:
			m.EOF = f.Bool()
		}
	})
}

// MessageType returns TypeAccepted.
func (*Accepted) MessageType() Type { return TypeAccepted }

// Append appends the message's body to b.
func (m *Accepted) Append(b []byte) []byte {
	return wire.AppendUint(b, 1, m.Offset)
}

// Parse reads a body.
func (m *Accepted) Parse(body []byte) error {
	*m = Accepted{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Offset = f.Uint64()
		}
	})
}

// MessageType returns TypeAck.
func (*Ack) MessageType() Type { return TypeAck }

// Append appends the message's body to b.
func (m *Ack) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.ID)
	b = wire.AppendUint(b, 2, m.Stdout)
	b = wire.AppendUint(b, 3, m.Stderr)
	return wire.AppendBool(b, 4, m.Exit)
}

// Parse reads a body.
func (m *Ack) Parse(body []byte) error {
	*m = Ack{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.ID = f.String()
		case 2:
			m.Stdout = f.Uint64()
		case 3:
			m.Stderr = f.Uint64()
		case 4:
			m.Exit = f.Bool()
		}
	})
}

// MessageType returns TypeSignal.
func (*Signal) MessageType() Type { return TypeSignal }

// Append appends the message's body to b.
func (m *Signal) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.ID)
	b = wire.AppendInt(b, 2, int64(m.Signal))
	return wire.AppendUint(b, 3, uint64(m.Scope))
}

// Parse reads a body.
func (m *Signal) Parse(body []byte) error {
	*m = Signal{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.ID = f.String()
		case 2:
			m.Signal = f.Int32()
		case 3:
			m.Scope = SignalScope(f.Uint8())
		}
	})
}

// MessageType returns TypeResize.
func (*Resize) MessageType() Type { return TypeResize }

// Append appends the message's body to b.
func (m *Resize) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.ID)
	b = wire.AppendUint(b, 2, uint64(m.Rows))
	return wire.AppendUint(b, 3, uint64(m.Cols))
}

// Parse reads a body.
func (m *Resize) Parse(body []byte) error {
	*m = Resize{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.ID = f.String()
		case 2:
			m.Rows = f.Uint16()
		case 3:
			m.Cols = f.Uint16()
		}
	})
}

// MessageType returns TypeList.
func (*List) MessageType() Type { return TypeList }

// Append appends the message's body to b: it is empty.
func (*List) Append(b []byte) []byte { return b }

// Parse reads a body.
func (*List) Parse(body []byte) error { return parseNone(body) }

// MessageType returns TypeProcesses.
func (*Processes) MessageType() Type { return TypeProcesses }

// Append appends the message's body to b.
func (m *Processes) Append(b []byte) []byte {
	var one []byte
	for i := range m.Processes {
		one = m.Processes[i].append(one[:0])
		b = wire.AppendElement(b, 1, one)
	}
	return b
}

// Parse reads a body.
func (m *Processes) Parse(body []byte) error {
	*m = Processes{}
	return parse(body, func(f *wire.Fields) {
		if f.Tag() != 1 {
			return
		}
		var p ProcessInfo
		if p.parse(f.Bytes()) != nil || len(m.Processes) >= MaxProcesses {
			f.Fail()
			return
		}
		m.Processes = append(m.Processes, p)
	})
}

func (p *ProcessInfo) append(b []byte) []byte {
	b = wire.AppendString(b, 1, p.ID)
	b = wire.AppendInt(b, 2, int64(p.PID))
	b = wire.AppendStrings(b, 3, p.Argv)
	b = wire.AppendUint(b, 4, uint64(p.Started))
	b = wire.AppendBool(b, 5, p.TTY)
	b = wire.AppendBool(b, 6, p.Exited)
	b = wire.AppendUint(b, 7, p.Stdout)
	b = wire.AppendUint(b, 8, p.Stderr)
	return wire.AppendUint(b, 9, p.Stdin)
}

func (p *ProcessInfo) parse(body []byte) error {
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			p.ID = f.String()
		case 2:
			p.PID = f.Int32()
		case 3:
			p.Argv = append(p.Argv, f.String())
		case 4:
			p.Started = f.Duration()
		case 5:
			p.TTY = f.Bool()
		case 6:
			p.Exited = f.Bool()
		case 7:
			p.Stdout = f.Uint64()
		case 8:
			p.Stderr = f.Uint64()
		case 9:
			p.Stdin = f.Uint64()
		}
	})
}

// MessageType returns TypeWait.
func (*Wait) MessageType() Type { return TypeWait }

// Append appends the message's body to b.
func (m *Wait) Append(b []byte) []byte {
	return wire.AppendString(b, 1, m.ID)
}

// Parse reads a body.
func (m *Wait) Parse(body []byte) error {
	*m = Wait{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.ID = f.String()
		}
	})
}

// MessageType returns TypeAdopt.
func (*Adopt) MessageType() Type { return TypeAdopt }

// Append appends the message's body to b.
func (m *Adopt) Append(b []byte) []byte {
	b = wire.AppendString(b, 1, m.ID)
	b = wire.AppendInt(b, 2, int64(m.PID))
	b = wire.AppendStrings(b, 3, m.Argv)
	b = wire.AppendUint(b, 4, uint64(m.Deadline))
	b = wire.AppendInt(b, 5, int64(m.KillSignal))
	b = wire.AppendUint(b, 6, uint64(m.Grace))
	b = wire.AppendUint(b, 7, uint64(m.Drain))
	b = wire.AppendUint(b, 8, uint64(m.Buffer))
	b = wire.AppendBool(b, 9, m.Discard)
	return wire.AppendBool(b, 10, m.KillTree)
}

// Parse reads a body.
func (m *Adopt) Parse(body []byte) error {
	*m = Adopt{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.ID = f.String()
		case 2:
			m.PID = f.Int32()
		case 3:
			m.Argv = append(m.Argv, f.String())
		case 4:
			m.Deadline = f.Duration()
		case 5:
			m.KillSignal = f.Int32()
		case 6:
			m.Grace = f.Duration()
		case 7:
			m.Drain = f.Duration()
		case 8:
			m.Buffer = f.Uint32()
		case 9:
			m.Discard = f.Bool()
		case 10:
			m.KillTree = f.Bool()
		}
	})
}
