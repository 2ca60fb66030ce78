package guest

import "github.com/fumehood-dev/fumehood/internal/guest/wire"

type Message interface {
	MessageType() Type
	wire.Message
}

func Append(b []byte, m Message) []byte { return wire.Encode(b, m) }

// Parse reads a body, which may be hostile. Byte slices lie within it afterwards, strings are copies.
func Parse(body []byte, m Message) error { return wire.Decode(body, m) }

func (*Hello) MessageType() Type       { return TypeHello }
func (*Welcome) MessageType() Type     { return TypeWelcome }
func (*Start) MessageType() Type       { return TypeStart }
func (*Started) MessageType() Type     { return TypeStarted }
func (*Park) MessageType() Type        { return TypePark }
func (*Attach) MessageType() Type      { return TypeAttach }
func (*Output) MessageType() Type      { return TypeOutput }
func (*Exited) MessageType() Type      { return TypeExited }
func (*Input) MessageType() Type       { return TypeInput }
func (*Accepted) MessageType() Type    { return TypeAccepted }
func (*Ack) MessageType() Type         { return TypeAck }
func (*Signal) MessageType() Type      { return TypeSignal }
func (*Resize) MessageType() Type      { return TypeResize }
func (*List) MessageType() Type        { return TypeList }
func (*Processes) MessageType() Type   { return TypeProcesses }
func (*Wait) MessageType() Type        { return TypeWait }
func (*KillAll) MessageType() Type     { return TypeKillAll }
func (*Lease) MessageType() Type       { return TypeLease }
func (*Reborn) MessageType() Type      { return TypeReborn }
func (*Shutdown) MessageType() Type    { return TypeShutdown }
func (*Stat) MessageType() Type        { return TypeStat }
func (*ReadFile) MessageType() Type    { return TypeReadFile }
func (*WriteFile) MessageType() Type   { return TypeWriteFile }
func (*ListDir) MessageType() Type     { return TypeListDir }
func (*MakeDir) MessageType() Type     { return TypeMakeDir }
func (*Move) MessageType() Type        { return TypeMove }
func (*Remove) MessageType() Type      { return TypeRemove }
func (*Watch) MessageType() Type       { return TypeWatch }
func (*Changed) MessageType() Type     { return TypeChanged }
func (*Pack) MessageType() Type        { return TypePack }
func (*Unpack) MessageType() Type      { return TypeUnpack }
func (*Unpacked) MessageType() Type    { return TypeUnpacked }
func (*FileInfo) MessageType() Type    { return TypeFileInfo }
func (*Data) MessageType() Type        { return TypeData }
func (*Done) MessageType() Type        { return TypeDone }
func (*Failed) MessageType() Type      { return TypeFailed }
func (*Adopt) MessageType() Type       { return TypeAdopt }
func (*Hold) MessageType() Type        { return TypeHold }
func (*Dial) MessageType() Type        { return TypeDial }
func (*Dialed) MessageType() Type      { return TypeDialed }
func (*Memory) MessageType() Type      { return TypeMemory }
func (*MemoryState) MessageType() Type { return TypeMemoryState }

// The fields of each message with their tags, in the order in which they are sent.

func (*Hello) Fields(*wire.Codec)    {}
func (*KillAll) Fields(*wire.Codec)  {}
func (*Hold) Fields(*wire.Codec)     {}
func (*Shutdown) Fields(*wire.Codec) {}
func (*Dialed) Fields(*wire.Codec)   {}
func (*List) Fields(*wire.Codec)     {}

func (m *Welcome) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &m.Version)
	wire.String(c, 2, &m.ID)
	wire.Uint(c, 3, &m.Generation)
	wire.Natural(c, 4, &m.Uptime)
	wire.Uint8s(c, 5, &m.Requests)
}

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
	wire.Bool(c, 21, &m.Parked)
}

func (l *Rlimit) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &l.Resource)
	wire.Uint(c, 2, &l.Value)
}

func (m *Started) Fields(c *wire.Codec) {
	wire.Int(c, 1, &m.PID)
	wire.Bool(c, 2, &m.Parked)
}

func (m *Park) Fields(c *wire.Codec) {
	wire.Strings(c, 1, &m.Argv)
	wire.Strings(c, 2, &m.Env)
	wire.String(c, 3, &m.Dir)
	wire.Uint(c, 4, &m.User.UID)
	wire.Uint(c, 5, &m.User.GID)
}

func (m *Attach) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Uint(c, 2, &m.Stdout)
	wire.Uint(c, 3, &m.Stderr)
	wire.Uint(c, 4, &m.Channel)
	wire.Uint(c, 5, &m.Background)
}

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

type outputHead struct{ *Output }

func (h outputHead) Fields(c *wire.Codec) { h.head(c) }

// AppendHead appends what stands before n bytes of data, so that the sender can put them behind it without another
// copy.
func (m *Output) AppendHead(b []byte, n int) []byte {
	return wire.AppendHead(wire.Encode(b, outputHead{m}), 3, n)
}

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

func (m *Input) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Uint(c, 2, &m.Offset)
	wire.Bytes(c, 3, &m.Data)
	wire.Bool(c, 4, &m.EOF)
}

func (m *Accepted) Fields(c *wire.Codec) { wire.Uint(c, 1, &m.Offset) }

func (m *Ack) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Uint(c, 2, &m.Stdout)
	wire.Uint(c, 3, &m.Stderr)
	wire.Bool(c, 4, &m.Exit)
	wire.Uint(c, 5, &m.Channel)
	wire.Uint(c, 6, &m.Background)
}

func (m *Signal) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Int(c, 2, &m.Signal)
	wire.Uint(c, 3, &m.Scope)
}

func (m *Resize) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.ID)
	wire.Uint(c, 2, &m.Rows)
	wire.Uint(c, 3, &m.Cols)
}

func (m *Processes) Fields(c *wire.Codec) { wire.List(c, 1, MaxProcesses, &m.Processes) }

func (m *Memory) Fields(c *wire.Codec)      { wire.Uint(c, 1, &m.Limit) }
func (m *MemoryState) Fields(c *wire.Codec) { wire.Uint(c, 1, &m.OOMKills) }

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

func (m *Wait) Fields(c *wire.Codec)  { wire.String(c, 1, &m.ID) }
func (m *Lease) Fields(c *wire.Codec) { wire.Natural(c, 1, &m.For) }

func (m *Reborn) Fields(c *wire.Codec) {
	wire.Bytes(c, 1, &m.Key)
	wire.String(c, 2, &m.ID)
	wire.Bytes(c, 3, &m.Entropy)
	wire.Time(c, 4, &m.Clock)
	wire.Natural(c, 5, &m.Lease)
	wire.Strings(c, 6, &m.Keep)
}

func (m *Stat) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Bool(c, 2, &m.Follow)
}

func (m *ReadFile) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Uint(c, 2, &m.Offset)
	wire.Uint(c, 3, &m.Length)
}

func (m *WriteFile) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Uint(c, 2, &m.Mode)
	wire.Bool(c, 3, &m.Atomic)
	wire.Uint(c, 4, &m.Offset)
	wire.Bool(c, 5, &m.Truncate)
	wire.Bool(c, 6, &m.Exclusive)
	wire.Bool(c, 7, &m.MakeParent)
}

func (m *ListDir) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Uint(c, 2, &m.Depth)
	wire.Uint(c, 3, &m.Limit)
}

func (m *MakeDir) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Uint(c, 2, &m.Mode)
	wire.Bool(c, 3, &m.Parents)
}

func (m *Move) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.From)
	wire.String(c, 2, &m.To)
	wire.Bool(c, 3, &m.Replace)
}

func (m *Remove) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Bool(c, 2, &m.Recursive)
	wire.Bool(c, 3, &m.Contents)
}

func (m *Watch) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Bool(c, 2, &m.Recursive)
}

func (m *Changed) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &m.Op)
	wire.String(c, 2, &m.Path)
	wire.Bool(c, 3, &m.Overflow)
}

func (m *Pack) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Base)
	wire.Strings(c, 2, &m.Paths)
	wire.Uint(c, 3, &m.MaxBytes)
	wire.Uint(c, 4, &m.MaxFiles)
}

func (m *Unpack) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Base)
	wire.Uint(c, 2, &m.MaxBytes)
	wire.Uint(c, 3, &m.MaxFiles)
}

func (m *Unpacked) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &m.Files)
	wire.Uint(c, 2, &m.Bytes)
}

func (m *FileInfo) Fields(c *wire.Codec) {
	wire.String(c, 1, &m.Path)
	wire.Uint(c, 2, &m.Type)
	wire.Uint(c, 3, &m.Mode)
	wire.Uint(c, 4, &m.Size)
	wire.Uint(c, 5, &m.UID)
	wire.Uint(c, 6, &m.GID)
	wire.Int(c, 7, &m.MTime)
	wire.Int(c, 8, &m.CTime)
	wire.Uint(c, 9, &m.Inode)
	wire.Uint(c, 10, &m.Links)
	wire.String(c, 11, &m.Target)
	wire.String(c, 12, &m.Err)
	wire.String(c, 13, &m.Omitted)
}

func (m *Data) Fields(c *wire.Codec) { wire.Bytes(c, 1, &m.Data) }

// AppendDataHead appends what precedes n bytes of content in the body of a Data message. The sender need not copy them.
func AppendDataHead(b []byte, n int) []byte { return wire.AppendHead(b, 1, n) }

func (m *Done) Fields(c *wire.Codec) {
	wire.Bool(c, 1, &m.More)
	wire.Uint(c, 2, &m.Size)
}

func (m *Failed) Fields(c *wire.Codec) {
	wire.Uint(c, 1, &m.Kind)
	wire.String(c, 2, &m.Op)
	wire.Uint(c, 3, &m.Errno)
	wire.String(c, 4, &m.Msg)
	wire.Uint(c, 5, &m.Value)
	wire.Uint(c, 6, &m.Stream)
}

func (m *Adopt) Fields(c *wire.Codec) {
	wire.Int(c, 1, &m.PID)
	wire.Strings(c, 2, &m.Argv)
	wire.String(c, 3, &m.Dir)
	wire.Uint(c, 4, &m.User.UID)
	wire.Uint(c, 5, &m.User.GID)
}

func (m *Dial) Fields(c *wire.Codec) { wire.Uint(c, 1, &m.Port) }
