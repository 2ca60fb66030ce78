package guest

import (
	"github.com/glovebox-dev/glovebox/internal/guest/wire"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Message is one message of the protocol. Its fields and their tags are in the codec files; a tag never changes its meaning.
type Message interface {
	MessageType() Type
	// Append appends the message's body to b.
	Append(b []byte) []byte
	// Parse reads a body, which may be hostile. Byte slices lie within it afterwards, strings are copies.
	Parse(body []byte) error
}

// New returns an empty message of the type, or nil where there is no such type.
func New(t Type) Message {
	if t == 0 || int(t) >= len(makers) {
		return nil
	}
	return makers[t]()
}

var makers = [...]func() Message{
	TypeHello:     func() Message { return new(Hello) },
	TypeWelcome:   func() Message { return new(Welcome) },
	TypeStart:     func() Message { return new(Start) },
	TypeStarted:   func() Message { return new(Started) },
	TypeAttach:    func() Message { return new(Attach) },
	TypeOutput:    func() Message { return new(Output) },
	TypeExited:    func() Message { return new(Exited) },
	TypeInput:     func() Message { return new(Input) },
	TypeAccepted:  func() Message { return new(Accepted) },
	TypeAck:       func() Message { return new(Ack) },
	TypeSignal:    func() Message { return new(Signal) },
	TypeResize:    func() Message { return new(Resize) },
	TypeList:      func() Message { return new(List) },
	TypeProcesses: func() Message { return new(Processes) },
	TypeWait:      func() Message { return new(Wait) },
	TypeKillAll:   func() Message { return new(KillAll) },
	TypeLease:     func() Message { return new(Lease) },
	TypeReborn:    func() Message { return new(Reborn) },
	TypeShutdown:  func() Message { return new(Shutdown) },
	TypeStat:      func() Message { return new(Stat) },
	TypeReadFile:  func() Message { return new(ReadFile) },
	TypeWriteFile: func() Message { return new(WriteFile) },
	TypeListDir:   func() Message { return new(ListDir) },
	TypeMakeDir:   func() Message { return new(MakeDir) },
	TypeMove:      func() Message { return new(Move) },
	TypeRemove:    func() Message { return new(Remove) },
	TypeWatch:     func() Message { return new(Watch) },
	TypeChanged:   func() Message { return new(Changed) },
	TypePack:      func() Message { return new(Pack) },
	TypeUnpack:    func() Message { return new(Unpack) },
	TypeUnpacked:  func() Message { return new(Unpacked) },
	TypeFileInfo:  func() Message { return new(FileInfo) },
	TypeData:      func() Message { return new(Data) },
	TypeDone:      func() Message { return new(Done) },
	TypeFailed:    func() Message { return new(Failed) },
	TypeAdopt:     func() Message { return new(Adopt) },
	TypeHold:      func() Message { return new(Hold) },
}

// parse reads fields, handing each to field. Tags that field does not know it leaves alone.
func parse(body []byte, field func(f *wire.Fields)) error {
	f := wire.NewFields(body)
	for f.Next() {
		field(&f)
	}
	return f.Err()
}

// parseNone reads a message without fields.
func parseNone(body []byte) error { return parse(body, func(*wire.Fields) {}) }

// MessageType returns TypeWelcome.
func (*Welcome) MessageType() Type { return TypeWelcome }

// Append appends the message's body to b.
func (m *Welcome) Append(b []byte) []byte {
	b = wire.AppendUint(b, 1, uint64(m.Version))
	b = wire.AppendString(b, 2, m.ID)
	b = wire.AppendUint(b, 3, m.Generation)
	b = wire.AppendUint(b, 4, uint64(m.Uptime))
	types := make([]byte, len(m.Requests))
	for i, t := range m.Requests {
		types[i] = byte(t)
	}
	return wire.AppendBytes(b, 5, types)
}

// Parse reads a body.
func (m *Welcome) Parse(body []byte) error {
	*m = Welcome{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Version = f.Uint32()
		case 2:
			m.ID = f.String()
		case 3:
			m.Generation = f.Uint64()
		case 4:
			m.Uptime = f.Duration()
		case 5:
			types := f.Bytes()
			m.Requests = make([]Type, len(types))
			for i, t := range types {
				m.Requests[i] = Type(t)
			}
		}
	})
}

// MessageType returns TypeDone.
func (*Done) MessageType() Type { return TypeDone }

// Append appends the message's body to b.
func (m *Done) Append(b []byte) []byte {
	b = wire.AppendBool(b, 1, m.More)
	return wire.AppendUint(b, 2, m.Size)
}

// Parse reads a body.
func (m *Done) Parse(body []byte) error {
	*m = Done{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.More = f.Bool()
		case 2:
			m.Size = f.Uint64()
		}
	})
}

// MessageType returns TypeFailed.
func (*Failed) MessageType() Type { return TypeFailed }

// Append appends the message's body to b.
func (m *Failed) Append(b []byte) []byte {
	b = wire.AppendUint(b, 1, uint64(m.Kind))
	b = wire.AppendString(b, 2, m.Op)
	b = wire.AppendUint(b, 3, uint64(m.Errno))
	b = wire.AppendString(b, 4, m.Msg)
	b = wire.AppendUint(b, 5, m.Value)
	return wire.AppendUint(b, 6, uint64(m.Stream))
}

// Parse reads a body.
func (m *Failed) Parse(body []byte) error {
	*m = Failed{}
	return parse(body, func(f *wire.Fields) {
		switch f.Tag() {
		case 1:
			m.Kind = sandbox.Kind(f.Uint8())
		case 2:
			m.Op = f.String()
		case 3:
			m.Errno = f.Uint32()
		case 4:
			m.Msg = f.String()
		case 5:
			m.Value = f.Uint64()
		case 6:
			m.Stream = sandbox.Stream(f.Uint8())
		}
	})
}

// Error says what failed, so that the guest's own functions can return a Failed as their error.
func (m *Failed) Error() string {
	if m.Op == "" || m.Msg == "" {
		return m.Op + m.Msg
	}
	return m.Op + ": " + m.Msg
}
