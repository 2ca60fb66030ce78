package guest

import "github.com/fumehood-dev/fumehood/internal/guest/wire"

// MessageType returns TypeStart.
func (*Start) MessageType() Type { return TypeStart }

// Fields visits its fields.
func (m *Start) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Strings(c, 2, &m.Argv)
	wire.Strings(c, 3, &m.Env)
	wire.String(c, 4, &m.Dir)
	wire.Uint(c, 5, &m.User.UID)
	wire.Uint(c, 6, &m.User.GID)
	wire.Uint(c, 7, &m.Stdin)
	wire.Bool(c, 8, &m.TTY)
	wire.Uint(c, 9, &m.Rows)
	wire.Uint(c, 10, &m.Cols)
	wire.Natural(c, 11, &m.Deadline)
	wire.Int(c, 12, &m.KillSignal)
	wire.Natural(c, 13, &m.Grace)
	wire.Natural(c, 14, &m.Drain)
	wire.Uint(c, 15, &m.Buffer)
	wire.Bool(c, 16, &m.Discard)
	wire.Bool(c, 17, &m.Follow)
	wire.Bool(c, 18, &m.KillTree)
	wire.List(c, 19, MaxLimits, &m.Limits)
	wire.Bool(c, 20, &m.Channel)
}

// Fields visits its fields.
func (l *Rlimit) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &l.Resource)
	wire.Uint(c, 2, &l.Value)
}

// MessageType returns TypeStarted.
func (*Started) MessageType() Type { return TypeStarted }

// Fields visits its field.
func (m *Started) Fields(c *wire.Codec) { wire.Int(c, 1, &m.PID) }

// MessageType returns TypeAttach.
func (*Attach) MessageType() Type { return TypeAttach }

// Fields visits its fields.
func (m *Attach) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Uint(c, 2, &m.Stdout)
	wire.Uint(c, 3, &m.Stderr)
	wire.Uint(c, 4, &m.Channel)
}

// MessageType returns TypeOutput.
func (*Output) MessageType() Type { return TypeOutput }

// Fields visits its fields.
func (m *Output) Fields(c *wire.Codec) {
	m.head(c)
	wire.Bytes(c, 3, &m.Data)
}

func (m *Output) head(c *wire.Codec) {
	wire.Uint(c, 1, &m.Stream)
	wire.Uint(c, 2, &m.Offset)
	wire.Uint(c, 4, &m.BeforeStdout)
	wire.Uint(c, 5, &m.BeforeStderr)
}

// outputHead is an Output without its data.
type outputHead struct{ *Output }

func (h outputHead) Fields(c *wire.Codec) { h.head(c) }

// AppendHead appends what stands before n bytes of data, so that the sender can put them behind it without another copy.
func (m *Output) AppendHead(b []byte, n int) []byte {
	return wire.AppendHead(wire.Encode(b, outputHead{m}), 3, n)
}

// MessageType returns TypeExited.
func (*Exited) MessageType() Type { return TypeExited }

// Fields visits its fields.
func (m *Exited) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Int(c, 2, &m.Code)
	wire.Int(c, 3, &m.Signal)
	wire.Bool(c, 4, &m.TimedOut)
	wire.Bool(c, 5, &m.Signaled)
	wire.Uint(c, 6, &m.ForeignKill)
	wire.Natural(c, 7, &m.Wall)
	wire.Natural(c, 8, &m.CPU)
	wire.Uint(c, 9, &m.MaxRSS)
	wire.Uint(c, 10, &m.Stdout)
	wire.Uint(c, 11, &m.Stderr)
	wire.Bool(c, 12, &m.Incomplete)
	wire.Uint(c, 13, &m.Left)
	wire.Uint(c, 14, &m.Tasks)
	wire.Uint(c, 15, &m.Channel)
}

// MessageType returns TypeInput.
func (*Input) MessageType() Type { return TypeInput }

// Fields visits its fields.
func (m *Input) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Uint(c, 2, &m.Offset)
	wire.Bytes(c, 3, &m.Data)
	wire.Bool(c, 4, &m.EOF)
}

// MessageType returns TypeAccepted.
func (*Accepted) MessageType() Type { return TypeAccepted }

// Fields visits its field.
func (m *Accepted) Fields(c *wire.Codec) { wire.Uint(c, 1, &m.Offset) }

// MessageType returns TypeAck.
func (*Ack) MessageType() Type { return TypeAck }

// Fields visits its fields.
func (m *Ack) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Uint(c, 2, &m.Stdout)
	wire.Uint(c, 3, &m.Stderr)
	wire.Bool(c, 4, &m.Exit)
	wire.Uint(c, 5, &m.Channel)
}

// MessageType returns TypeSignal.
func (*Signal) MessageType() Type { return TypeSignal }

// Fields visits its fields.
func (m *Signal) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Int(c, 2, &m.Signal)
	wire.Uint(c, 3, &m.Scope)
}

// MessageType returns TypeResize.
func (*Resize) MessageType() Type { return TypeResize }

// Fields visits its fields.
func (m *Resize) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Uint(c, 2, &m.Rows)
	wire.Uint(c, 3, &m.Cols)
}

// MessageType returns TypeList.
func (*List) MessageType() Type { return TypeList }

// Fields are none.
func (*List) Fields(*wire.Codec) {}

// MessageType returns TypeProcesses.
func (*Processes) MessageType() Type { return TypeProcesses }

// Fields visits its field.
func (m *Processes) Fields(c *wire.Codec) { wire.List(c, 1, MaxProcesses, &m.Processes) }

// Fields visits its fields.
func (m *ProcessInfo) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Int(c, 2, &m.PID)
	wire.Strings(c, 3, &m.Argv)
	wire.Natural(c, 4, &m.Started)
	wire.Bool(c, 5, &m.TTY)
	wire.Bool(c, 6, &m.Exited)
	wire.Uint(c, 7, &m.Stdout)
	wire.Uint(c, 8, &m.Stderr)
	wire.Uint(c, 9, &m.Stdin)
	wire.Uint(c, 10, &m.Channel)
}

// MessageType returns TypeWait.
func (*Wait) MessageType() Type { return TypeWait }

// Fields visits its field.
func (m *Wait) Fields(c *wire.Codec) { wire.String(c, 1, &m.ID) }

// MessageType returns TypeAdopt.
func (*Adopt) MessageType() Type { return TypeAdopt }

// Fields visits its fields.
func (m *Adopt) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Int(c, 2, &m.PID)
	wire.Strings(c, 3, &m.Argv)
	wire.Natural(c, 4, &m.Deadline)
	wire.Int(c, 5, &m.KillSignal)
	wire.Natural(c, 6, &m.Grace)
	wire.Natural(c, 7, &m.Drain)
	wire.Uint(c, 8, &m.Buffer)
	wire.Bool(c, 9, &m.Discard)
	wire.Bool(c, 10, &m.KillTree)
}
