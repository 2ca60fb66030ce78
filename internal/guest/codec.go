package guest

import "github.com/fumehood-dev/fumehood/internal/guest/wire"

// Message is one message of the protocol. Its fields and their tags are in the codec files.
type Message interface {
	MessageType() Type
	wire.Message
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
	TypeDial:      func() Message { return new(Dial) },
	TypeDialed:    func() Message { return new(Dialed) },
}

// Append appends a message's body to b.
func Append(b []byte, m Message) []byte { return wire.Encode(b, m) }

// Parse reads a body, which may be hostile. Byte slices lie within it afterwards, strings are copies.
func Parse(body []byte, m Message) error { return wire.Decode(body, m) }

// MessageType returns TypeWelcome.
func (*Welcome) MessageType() Type { return TypeWelcome }

// Fields visits its fields.
func (m *Welcome) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &m.Version)
	wire.String(c, 2, &m.ID)
	wire.Uint(c, 3, &m.Generation)
	wire.Natural(c, 4, &m.Uptime)
	wire.Uint8s(c, 5, &m.Requests)
}

// MessageType returns TypeDone.
func (*Done) MessageType() Type { return TypeDone }

// Fields visits its fields.
func (m *Done) Fields(c *wire.Codec) {
	wire.Bool(c, 1, &m.More)
	wire.Uint(c, 2, &m.Size)
}

// MessageType returns TypeFailed.
func (*Failed) MessageType() Type { return TypeFailed }

// Fields visits its fields.
func (m *Failed) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &m.Kind)
	wire.String(c, 2, &m.Op)
	wire.Uint(c, 3, &m.Errno)
	wire.String(c, 4, &m.Msg)
	wire.Uint(c, 5, &m.Value)
	wire.Uint(c, 6, &m.Stream)
}

// Error says what failed, so that the guest's own functions can return a Failed as their error.
func (m *Failed) Error() string {
	if m.Op == "" || m.Msg == "" {
		return m.Op + m.Msg
	}
	return m.Op + ": " + m.Msg
}
