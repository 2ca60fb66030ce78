package guest

import (
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The preamble of a connection.
const (
	Magic      = "FUMEHOD1"
	MagicReply = "FUMEOK_1"

	PurposeMux      = 0
	PurposeAdopt    = 1
	PurposeLifeline = 2

	KeySize = 32
)

// Bounds of the protocol. Each side enforces them on what it reads.
const (
	MaxConnections  = 64
	PreambleTimeout = 5 * time.Second
	MaxMessage      = wire.MaxMessage // a start frame with a large environment and argument list
	MaxData         = 32 << 10        // one Data or Output message: small enough that none delays another stream by much
	MaxPath         = 4096            // PATH_MAX
	MaxProcesses    = 4096            // processes with a record that is not acknowledged
	MaxBuffer       = 8 << 20         // output kept for one stream of one process
	DefaultBuffer   = 256 << 10       // the same where Start says nothing
	MaxLimits       = 32              // of one Start; the kernel knows half as many
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
)

// Hello asks who the guest is.
type Hello struct{}

// Welcome says who the guest is.
type Welcome struct {
	Version    uint32        // of the protocol; see Version
	ID         string        // of the sandbox
	Generation uint64        // counts rebirths, from 1
	Uptime     time.Duration // of the guest
	Requests   []Type        // the request types this guest serves
}

// Version is the version of the protocol. It rises when a field changes its meaning; new fields and requests do not raise it.
const Version = 1

// Start starts a process. ID is chosen by the host and names the execution; a second Start with an ID that has a record is
// answered with Failed{Exists}, so that a repeat after a lost answer never runs anything twice.
type Start struct {
	ID         string       // 1 to 64 letters, digits, or of -_.
	Argv       []string     // Argv[0] is looked up on the PATH of Env, in its absolute folders, when it has no slash
	Env        []string     // all of it, "NAME=value"; the guest adds EnvExecution
	Dir        string       // absolute; "" is /
	User       sandbox.User // the zero value is the sandbox's own user
	Stdin      StdinMode
	TTY        bool // stdin and stdout are a terminal, stderr is not used
	Channel    bool // descriptors 3 and 4 are pipes, see Channel in the package's documentation; needs StdinNull, excludes TTY
	Rows, Cols uint16
	Deadline   time.Duration // 0 is none
	KillSignal int32         // at the deadline; 0 is SIGKILL
	Grace      time.Duration // from KillSignal to SIGKILL
	Drain      time.Duration // how long a descendant may keep the pipes open after the exit; 0 is DefaultDrain
	Buffer     uint32        // bytes of output kept for each stream; 0 is DefaultBuffer, the most is MaxBuffer
	Discard    bool          // drop the oldest output rather than hold the process up
	Follow     bool          // Output and Exited follow on this stream; the stream's end then ends nothing
	KillTree   bool          // when the process ends, so do all others of its execution
	Limits     []Rlimit      // soft and hard, over those of the sandbox
}

// DefaultDrain bounds how long output is awaited after the exit where Start says nothing.
const DefaultDrain = 250 * time.Millisecond

// StdinMode says what stdin is.
type StdinMode uint8

// The stdin modes.
const (
	StdinNull StdinMode = iota // /dev/null
	StdinPipe                  // a pipe that Input writes to
)

// Rlimit is one resource limit, soft and hard alike.
type Rlimit struct {
	Resource uint32 // RLIMIT_*
	Value    uint64
}

// Started answers Start and Adopt.
type Started struct{ PID int32 }

// Attach asks for the output of an execution from the given offsets, and its end.
type Attach struct {
	ID      string
	Stdout  uint64
	Stderr  uint64
	Channel uint64
}

// Output is a piece of output. Offset is that of its first byte in its stream.
type Output struct {
	Stream sandbox.Stream
	Offset uint64
	Data   []byte

	// Of the stream sandbox.Channel only: what the process had written to stdout and stderr when the guest read the last byte of this
	// piece. So all output that the process wrote before any byte of the piece lies before these offsets. Some that it wrote
	// afterwards may too, but never any that is not written yet.
	BeforeStdout uint64
	BeforeStderr uint64
}

// Exited is the exit record of an execution.
type Exited struct {
	ID          string
	Code        int32  // -1 where a signal ended the process
	Signal      int32  // 0 where it exited
	TimedOut    bool   // its deadline had passed
	Signaled    bool   // the guest sent SIGKILL for a caller's Signal, KillAll or Reborn
	ForeignKill uint32 // processes of the execution that the guest reaped dead of SIGKILL before it had sent any
	Wall        time.Duration
	CPU         time.Duration // user and system of the process and of those of its descendants that were waited for
	MaxRSS      uint64        // bytes, of the largest single process
	Stdout      uint64        // bytes written, whether kept or not
	Stderr      uint64
	Channel     uint64
	Incomplete  bool   // a descendant still held the output open when Drain was over
	Left        uint32 // processes of the execution that still ran when this record was made
	Tasks       uint32 // where TimedOut: processes and threads of the sandbox when the deadline had passed
}

// Input hands bytes to stdin, or to descriptor 3 of a process with a channel. Offset counts all bytes handed over before; bytes
// before what was already taken are skipped.
type Input struct {
	ID     string
	Offset uint64
	Data   []byte
	EOF    bool // close stdin after Data; on a terminal, type the end-of-file character
}

// Accepted says up to which offset stdin was taken. It is sent once the process's pipe took the bytes; a process that is gone,
// or has closed its stdin, takes everything (EPIPE is no error).
type Accepted struct{ Offset uint64 }

// Ack lets the guest forget: output before the given offsets, and with Exit the exit record and all the rest.
type Ack struct {
	ID      string
	Stdout  uint64
	Stderr  uint64
	Channel uint64
	Exit    bool
}

// Signal sends a signal. It fails with NotFound where no process is left to get it.
type Signal struct {
	ID     string
	Signal int32
	Scope  SignalScope
}

// SignalScope says which processes get a signal.
type SignalScope uint8

// The scopes of a signal.
const (
	ScopeProcess   SignalScope = iota // the started process
	ScopeGroup                        // its process group
	ScopeExecution                    // all processes of the execution
)

// Resize sets the size of a terminal.
type Resize struct {
	ID         string
	Rows, Cols uint16
}

// List asks for all processes that have a record.
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

// Wait asks for the exit record of an execution as soon as there is one.
type Wait struct{ ID string }

// KillAll ends every process in the sandbox but the guest.
type KillAll struct{}

// Lease gives the sandbox that much longer to live from now. Zero is for ever: the lease is given up. Any other makes a one-shot
// guest a living one: from then on the end of its lifeline does not end it.
type Lease struct{ For time.Duration }

// Reborn makes a restored guest another one: it takes the new key and identity, mixes Entropy into the kernel's, forgets the
// secrets it was given, raises its generation, closes every other connection, and ends and forgets all open executions but
// those in Keep.
type Reborn struct {
	Key     []byte
	ID      string
	Entropy []byte
	Clock   time.Time // the wall clock of the host, where the sandbox has one of its own that can be set
	Lease   time.Duration
	Keep    []string
}

// Hold has the guest close its socket and unlink it, for as long as a file named HoldFile lies beside it, so that the sandbox can be saved.
// The file is there when Hold is sent. All connections are closed, that of the request after the answer.
type Hold struct{}

// Dial connects to a TCP port of the sandbox's own loopback: of 127.0.0.1, and where that refuses, of ::1. After Dialed the stream carries
// the bytes of the connection and no messages. Each side's end is the end of that half of the connection. A reset of the stream without the host's
// end resets the connection. Failed has ECONNREFUSED where nothing listens, and ETIMEDOUT after DialTimeout.
type Dial struct{ Port uint16 }

// Dialed answers Dial.
type Dialed struct{}

// DialTimeout bounds how long a program may take to accept a connection. The kernel does it for the program unless too many wait.
const DialTimeout = 10 * time.Second

// HoldFile is the file that a guest looks for in the folder of its socket.
const HoldFile = "hold"

// Shutdown ends the sandbox from inside.
type Shutdown struct{}

// Stat asks for one file. The link itself is described unless Follow.
type Stat struct {
	Path   string
	Follow bool
}

// ReadFile reads a regular file. Length 0 reads to the end of the file as it is then.
type ReadFile struct {
	Path           string
	Offset, Length uint64
}

// WriteFile writes a regular file from the Data messages that follow it until the host ends its side. With Atomic the content
// goes to a temporary file beside it that takes its name at the end, so readers see the old or the new content, never a
// mixture. Otherwise it is written at Offset, and the file is cut after the last byte when Truncate is set.
type WriteFile struct {
	Path       string
	Mode       uint32 // permission bits of a new file; 0 is 0644
	Atomic     bool
	Offset     uint64
	Truncate   bool
	Exclusive  bool // fail where the file exists
	MakeParent bool // make the folders above it
}

// ListDir lists a folder, depth first, in the order of names. Links are listed, never followed.
type ListDir struct {
	Path  string
	Depth uint32 // 1 is the folder itself; 0 means 1
	Limit uint32 // entries at the most; 0 is DefaultListLimit. Done.More says whether there were more
}

// DefaultListLimit bounds a listing where ListDir says nothing.
const DefaultListLimit = 100_000

// MakeDir makes a folder.
type MakeDir struct {
	Path    string
	Mode    uint32 // 0 is 0755
	Parents bool   // make those above it, and be content where it exists
}

// Move renames a file or folder. An existing file at To is replaced only with Replace.
type Move struct {
	From, To string
	Replace  bool
}

// Remove removes a file or an empty folder, or with Recursive a folder and all in it. Links are removed, never followed.
type Remove struct {
	Path      string
	Recursive bool
	Contents  bool // what is in the folder, not the folder
}

// Watch reports changes below a folder.
type Watch struct {
	Path      string
	Recursive bool
}

// Changed is one change. Overflow says that changes were lost: the watcher must look afresh.
type Changed struct {
	Op       ChangeOp
	Path     string
	Overflow bool
}

// ChangeOp is what happened to a file.
type ChangeOp uint8

// The changes.
const (
	ChangeCreate ChangeOp = iota + 1
	ChangeWrite
	ChangeRemove
	ChangeRename // away from Path; the new name, if it is watched, comes as ChangeCreate
	ChangeMode
)

// Pack sends trees. Each path is sent with all that is below it; entries are named relative to Base.
type Pack struct {
	Base     string
	Paths    []string // relative to Base; none means all of it
	MaxBytes uint64   // of content in all; 0 is no bound
	MaxFiles uint64
}

// Unpack makes what the FileInfo messages that follow it describe, below Base: folders, regular files, symbolic links. Names are
// relative and hold no "..", no element of a path may be a link, set-id bits are dropped, devices and hard links are refused.
type Unpack struct {
	Base     string
	MaxBytes uint64
	MaxFiles uint64
}

// Unpacked says what Unpack made.
type Unpacked struct {
	Files uint64
	Bytes uint64
}

// FileInfo describes one file.
type FileInfo struct {
	Path    string // as asked, or relative to the folder that was asked for
	Type    FileType
	Mode    uint32 // permission, set-id and sticky bits
	Size    uint64 // of regular files; Pack sends exactly so many bytes after it
	UID     uint32
	GID     uint32
	MTime   int64 // nanoseconds since 1970
	CTime   int64 // the same; the code in the sandbox cannot set it
	Inode   uint64
	Links   uint64
	Target  string // of a symbolic link
	Err     string // why a listed entry could not be described or opened; the other fields may be unset
	Omitted string // Pack: why the content does not follow, as with sockets or files over the bound
}

// FileType is the type of a file.
type FileType uint8

// The file types.
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

// Done ends a call that went well.
type Done struct {
	More bool   // ListDir: there were more entries than the limit
	Size uint64 // ReadFile, WriteFile: bytes moved
}

// Failed ends a call that did not go well.
type Failed struct {
	Kind   sandbox.Kind
	Op     string // the step, with the path where there is one
	Errno  uint32 // 0 where no system call failed
	Msg    string
	Value  uint64         // Attach: the oldest offset that is kept,
	Stream sandbox.Stream // and of which stream
}

// Adopt takes over a process that was spawned outside, into the sandbox's namespaces, as a child of pid 1. The fields that it
// shares with Start mean the same.
type Adopt struct {
	ID         string
	PID        int32 // in the sandbox's pid namespace
	Argv       []string
	Deadline   time.Duration
	KillSignal int32
	Grace      time.Duration
	Drain      time.Duration
	Buffer     uint32
	Discard    bool
	KillTree   bool
}
