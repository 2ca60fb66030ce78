package guest

import (
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	Magic      = "FUMEHOD1"
	MagicReply = "FUMEOK_1"

	PurposeMux      = 0
	PurposeAdopt    = 1
	PurposeLifeline = 2

	KeySize = 32
)

// MaxUnread is the most bytes of one call that wait for its reader.
const MaxUnread = wire.InitialCredit

// Bounds of the protocol. Each side enforces them on what it reads.
const (
	MaxConnections  = 64
	PreambleTimeout = 5 * time.Second
	MaxData         = 32 << 10  // one Data or Output message: small enough that none delays another stream by much
	MaxPath         = 4096      // PATH_MAX
	MaxProcesses    = 4096      // processes with a record that is not acknowledged
	MaxBuffer       = 8 << 20   // output kept for one stream of one process
	DefaultBuffer   = 256 << 10 // the default of Start.Buffer
	MaxLimits       = 32        // of one Start; the kernel knows half as many
)

// EnvExecution is the variable that marks the processes of an execution.
const EnvExecution = "FUMEHOOD_EXECUTION"

// Type is the type of a message on a stream.
type Type uint8

// The message types. Numbers are never reused.
const (
	TypeHello Type = iota + 1
	TypeWelcome
	TypeStart
	TypeStarted
	TypeAttach
	TypeOutput
	TypeExited
	TypeInput
	TypeAccepted
	TypeAck
	TypeSignal
	TypeResize
	TypeList
	TypeProcesses
	TypeWait
	TypeKillAll
	TypeLease
	TypeReborn
	TypeShutdown
	TypeStat
	TypeReadFile
	TypeWriteFile
	TypeListDir
	TypeMakeDir
	TypeMove
	TypeRemove
	TypeWatch
	TypeChanged
	TypePack
	TypeUnpack
	TypeUnpacked
	TypeFileInfo
	TypeData
	TypeDone
	TypeFailed
	TypeAdopt
	TypeHold
	TypeDial
	TypeDialed
	TypeMemory
	TypeMemoryState
	TypePark
)

// Hello requests the guest's identity.
type Hello struct{}

type Welcome struct {
	Version    uint32        // of the protocol; see Version
	ID         string        // of the sandbox
	Generation uint64        // counts rebirths, from 1
	Uptime     time.Duration // of the guest
	Requests   []Type        // the request types that this guest serves
}

// Version is the protocol's version. It increases when a field changes its meaning, not for new fields and requests.
const Version = 1

// Start starts a process. The host chooses ID, which names the execution. A second Start with the ID of a record
// returns Failed{Exists}, so a repeat after a lost answer never runs anything twice.
type Start struct {
	ID         string       // 1 to 64 characters: letters, digits, "-", "_" and "."
	Argv       []string     // the guest looks up Argv[0] without a slash in the absolute folders of Env's PATH
	Env        []string     // the whole environment, "NAME=value"; the guest adds EnvExecution
	Dir        string       // absolute; "" is /
	User       sandbox.User // the zero value is the sandbox's own user
	Stdin      StdinMode
	TTY        bool // stdin, stdout and stderr are one terminal, whose output is stdout
	Channel    bool // descriptors 3, 4 and 5 are open, see Channel in the package's documentation; StdinNull and no TTY
	Rows, Cols uint16
	Deadline   time.Duration // 0 is none
	KillSignal int32         // at the deadline; 0 is SIGKILL
	Grace      time.Duration // from KillSignal to SIGKILL
	Drain      time.Duration // how long a descendant may keep the pipes open after the exit; 0 is DefaultDrain
	Buffer     uint32        // bytes of output kept for each stream, at most MaxBuffer; 0 is DefaultBuffer
	Discard    bool          // when the buffer is full, drop the oldest output instead of blocking the process
	Follow     bool          // Output and Exited follow on this stream; the process outlives the stream
	KillTree   bool          // when the process ends, the guest kills all others of its execution
	Limits     []Rlimit      // override those of the sandbox
	Parked     bool          // the parked interpreter may run it; see Park
}

// Park starts an interpreter that waits for its program, and is answered once it waits. A Start with Parked, whose Argv
// begins with that of Park, lets it go on instead of starting a process; any other Start ends it first. So does another
// Park, and with an empty Argv it does nothing more.
//
// Descriptor 3 of the interpreter is a socket. The interpreter writes one byte to it when it waits, and reads the
// program from it: two little-endian uint32, the byte counts of the further arguments and of the environment, then
// both, with a NUL byte after each string. Its stdin is /dev/null. The limits of a Start count from the Start.
type Park struct {
	Argv, Env []string // as in Start
	Dir       string
	User      sandbox.User
}

const DefaultDrain = 250 * time.Millisecond

// StdinMode selects a process's stdin.
type StdinMode uint8

const (
	StdinNull StdinMode = iota // /dev/null
	StdinPipe                  // a pipe that Input writes to
)

// Rlimit is one resource limit, soft and hard alike.
type Rlimit struct {
	Resource uint32 // RLIMIT_*
	Value    uint64
}

type Started struct {
	PID    int32
	Parked bool // it is the parked interpreter
}

// Attach requests an execution's output from the given offsets, and its exit record.
type Attach struct {
	ID         string
	Stdout     uint64
	Stderr     uint64
	Channel    uint64
	Background uint64
}

// The first bytes of messages on descriptor 5 of a process with a channel.
const (
	BackgroundText = 't' // background output follows
	NewPipes       = 'p' // the process wants, and the guest sends, new pipes for stdout and stderr
)

// Output is a piece of output. Offset is that of its first byte in its stream.
type Output struct {
	Stream sandbox.Stream
	Offset uint64
	Data   []byte

	// For sandbox.Channel only: how much the process had written to stdout and stderr when the guest read the last byte
	// of this piece. All output written before any byte of the piece precedes these offsets. Later output may too,
	// but never output that is not written yet.
	BeforeStdout uint64
	BeforeStderr uint64
}

// Exited is the exit record of an execution.
type Exited struct {
	ID          string
	Code        int32  // -1 if a signal ended the process
	Signal      int32  // 0 if the process exited
	TimedOut    bool   // the deadline passed
	Signaled    bool   // the guest sent SIGKILL for a caller's Signal, KillAll or Reborn
	ForeignKill uint32 // processes of the execution that died of SIGKILL before the guest sent any
	Wall        time.Duration
	CPU         time.Duration // user and system, of the process and its waited-for descendants
	MaxRSS      uint64        // bytes, of the largest single process
	Stdout      uint64        // bytes written, kept or dropped
	Stderr      uint64
	Channel     uint64
	Incomplete  bool   // a descendant still held the output open when Drain was over
	Left        uint32 // processes of the execution that still ran when the guest made this record
	Tasks       uint32 // with TimedOut: processes and threads of the sandbox after the deadline
}

// Input sends bytes to stdin, or to descriptor 3 of a process with a channel. Offset is the position of the first byte.
// The guest skips bytes that it has accepted before.
type Input struct {
	ID     string
	Offset uint64
	Data   []byte
	EOF    bool // close stdin after Data; on a terminal, type the end-of-file character
}

// Accepted returns the offset up to which stdin is accepted, once the process's pipe holds the bytes. The guest
// discards the input of a process that has ended or closed its stdin (EPIPE is no error).
type Accepted struct{ Offset uint64 }

// Ack lets the guest drop output before the given offsets, and with Exit the whole record.
type Ack struct {
	ID      string
	Stdout  uint64
	Stderr  uint64
	Channel uint64
	Exit    bool

	Background uint64
}

// Signal sends a signal. It fails with NotFound if no process is left.
type Signal struct {
	ID     string
	Signal int32
	Scope  SignalScope
}

// SignalScope selects the processes that receive a signal.
type SignalScope uint8

const (
	ScopeProcess   SignalScope = iota // the started process
	ScopeGroup                        // its process group
	ScopeExecution                    // all processes of the execution
)

type Resize struct {
	ID         string
	Rows, Cols uint16
}

// List requests all processes that have a record.
type List struct{}

// Processes answers List. Argument lists are cut to 96 bytes.
type Processes struct{ Processes []ProcessInfo }

// ProcessInfo is one process that has a record.
type ProcessInfo struct {
	ID      string
	PID     int32
	Argv    []string
	Started time.Duration // after the start of the guest
	TTY     bool
	Exited  bool
	Stdout  uint64 // bytes written so far
	Stderr  uint64
	Channel uint64
	Stdin   uint64 // bytes accepted so far
}

// Wait waits for the exit record of an execution.
type Wait struct{ ID string }

// KillAll ends every process in the sandbox but the guest.
type KillAll struct{}

// Lease ends the sandbox after this time, unless another Lease comes before. Zero cancels the lease. Any other value
// makes a one-shot guest a living one: it outlives its lifeline.
type Lease struct{ For time.Duration }

// Reborn gives a restored guest a new identity. The guest takes the new key and ID, mixes Entropy into the kernel's,
// increments its generation, closes every other connection, and ends and drops all executions except those in Keep.
type Reborn struct {
	Key     []byte
	ID      string
	Entropy []byte
	Clock   time.Time // the host's wall clock, for a sandbox whose own clock can be set
	Lease   time.Duration
	Keep    []string
}

// Memory changes the limit that the guest watches (confine.Container.Memory) and asks for its state. The guest refuses
// it if it watches no memory: sandbox.Unsupported.
type Memory struct {
	Limit uint64 // bytes; 0 keeps it
}

// MemoryState answers Memory.
type MemoryState struct {
	OOMKills uint32 // processes that the guest has killed at the limit
}

// Hold closes and unlinks the guest's socket while a file named HoldFile lies beside it, so that the sandbox can be
// saved. The host makes the file before. The guest closes all connections, that of the request after the answer.
type Hold struct{}

// Dial connects to a TCP port of the sandbox's own loopback: of 127.0.0.1, and if that refuses, of ::1. After Dialed
// the stream carries the connection's bytes and no messages. The end of each side ends that half of the connection. A
// reset without the host's end resets the connection. Failed has ECONNREFUSED if nothing listens, ETIMEDOUT after
// DialTimeout.
type Dial struct{ Port uint16 }

type Dialed struct{}

// DialTimeout bounds the wait for a connection, which the kernel accepts for the program unless its queue is full.
const DialTimeout = 10 * time.Second

// HoldFile is the file beside a guest's socket that makes Hold last.
const HoldFile = "hold"

type Shutdown struct{}

// Stat describes one file. Without Follow it describes a link itself.
type Stat struct {
	Path   string
	Follow bool
}

// ReadFile reads a regular file. Length 0 reads up to the size at the beginning of the call.
type ReadFile struct {
	Path           string
	Offset, Length uint64
}

// WriteFile writes a regular file from the Data messages that follow, until the host ends its side. With Atomic the
// guest writes a temporary file and renames it at the end, so readers see the old or the new content, never a mixture.
// Otherwise it writes at Offset, and with Truncate cuts the file after the last byte.
type WriteFile struct {
	Path       string
	Mode       uint32 // permission bits of a new file; 0 is 0644
	Atomic     bool
	Offset     uint64
	Truncate   bool
	Exclusive  bool // fail if the file exists
	MakeParent bool // make missing folders above it
}

// ListDir lists a folder, depth first, in the order of names. Links are listed, never followed.
type ListDir struct {
	Path  string
	Depth uint32 // 1, the default, lists the folder itself
	Limit uint32 // maximum number of entries; 0 is DefaultListLimit. Done.More reports further ones
}

const DefaultListLimit = 100_000

type MakeDir struct {
	Path    string
	Mode    uint32 // 0 is 0755
	Parents bool   // make missing folders above it, and accept an existing folder
}

// Move renames a file or folder. An existing file at To is replaced only with Replace.
type Move struct {
	From, To string
	Replace  bool
}

// Remove removes a file or an empty folder, with Recursive a folder and its content. It removes links and never follows
// them.
type Remove struct {
	Path      string
	Recursive bool
	Contents  bool // remove the folder's content and keep the folder
}

// Watch reports changes below a folder.
type Watch struct {
	Path      string
	Recursive bool
}

// Changed is one change. Overflow means that changes were lost: the host must read the folder again.
type Changed struct {
	Op       ChangeOp
	Path     string
	Overflow bool
}

// ChangeOp is the kind of a change.
type ChangeOp uint8

const (
	ChangeCreate ChangeOp = iota + 1
	ChangeWrite
	ChangeRemove
	ChangeRename // away from Path; a watched new name is a ChangeCreate
	ChangeMode
)

// Pack sends files and folders with their content. Entries are named relative to Base.
type Pack struct {
	Base     string
	Paths    []string // relative to Base; none selects all of it
	MaxBytes uint64   // of content in total; 0 is unlimited
	MaxFiles uint64
}

// Unpack makes the folders, regular files and symbolic links that the following FileInfo messages describe, below Base.
// Names are relative and hold no "..". No element of a path may be a link. Unpack drops set-id bits, and refuses
// devices and hard links.
type Unpack struct {
	Base     string
	MaxBytes uint64
	MaxFiles uint64
}

type Unpacked struct {
	Files uint64
	Bytes uint64
}

type FileInfo struct {
	Path string // as in the request, or relative to the requested folder
	Type FileType
	Mode uint32 // permission, set-id and sticky bits
	// Size is that of regular files; Pack sends exactly this many bytes after it. In the answer to Stat of folders,
	// too.
	Size    uint64
	UID     uint32
	GID     uint32
	MTime   int64 // nanoseconds since 1970
	CTime   int64 // nanoseconds since 1970; the code in the sandbox cannot set it
	Inode   uint64
	Links   uint64
	Target  string // of a symbolic link
	Err     string // why the guest could not describe or open a listed entry; other fields may be unset
	Omitted string // Pack: why the content does not follow: a socket, or a file over the limit
}

type FileType uint8

const (
	FileRegular FileType = iota + 1
	FileDir
	FileSymlink
	FileDevice
	FilePipe
	FileSocket
)

// Data is a piece of file content.
type Data struct{ Data []byte }

type Done struct {
	More bool   // ListDir, Pack: there are more entries than the limit
	Size uint64 // ReadFile, WriteFile: bytes read or written
}

type Failed struct {
	Kind   sandbox.Kind
	Op     string // the step, and its path if it has one
	Errno  uint32 // 0 if no system call failed
	Msg    string
	Value  uint64         // Attach: the oldest kept offset
	Stream sandbox.Stream // Attach: the stream of Value
}

// Error makes Failed an error of the guest's own functions.
func (m *Failed) Error() string {
	if m.Op == "" || m.Msg == "" {
		return m.Op + m.Msg
	}
	return m.Op + ": " + m.Msg
}

// Adopt makes a process the parked interpreter that was spawned from outside into the sandbox's namespaces, as a child
// of pid 1. It waits already, and need not say so. Its descriptors are our end of its descriptor 3, and the read ends
// of its stdout and stderr.
type Adopt struct {
	PID  int32 // in the sandbox's pid namespace
	Argv []string
	Dir  string
	User sandbox.User
}
