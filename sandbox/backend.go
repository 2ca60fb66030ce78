package sandbox

import (
	"context"
	"net"
	"time"
)

// Backend builds the walls of sandboxes. It makes boxes; it does not run commands: processes, terminals and files are the
// guest's, written once, so that backends and languages never multiply.
//
// More powers are optional interfaces found by assertion: on a Box Linker, Pauser and Checkpointer, on a Backend Preflighter and
// Restorer.
type Backend interface {
	// Name is the word by which users choose this backend.
	Name() string

	// Probe says what stands on this host. An error means that the backend cannot work here; it says why and what would help.
	Probe(ctx context.Context) (Posture, error)

	// Create returns a ready box, or an error with nothing left behind. Spec.ID comes from the engine, and the name of
	// everything made on the host derives from it. A wall or a named limit that cannot be raised is an error, unless the
	// spec accepts it by name.
	Create(ctx context.Context, spec Spec) (Box, error)

	// Recover takes back the boxes named in keep that a dead server left, and destroys all else that is ours and has no
	// living owner. It is idempotent.
	Recover(ctx context.Context, keep []ID) ([]Box, error)

	// Close releases what the backend holds. It never ends a box.
	Close() error
}

// Preflighter is a Backend that can say what Create would do with a complete spec before anything is made.
type Preflighter interface {
	// Preflight returns the limits that nothing here would enforce, and the error by which Create would refuse the spec. What
	// shows only while walls are raised, it cannot tell.
	Preflight(spec Spec) (unenforced []LimitName, refusal error)
}

// Rooted is a Backend that has a root of its own for specs that name none, other than the host's.
type Rooted interface {
	Root(spec Spec) Root
}

// Restorer is a Backend that makes boxes out of checkpoints.
type Restorer interface {
	// Restore returns a ready box that goes on where the sandbox saved in dir was: memory, processes and files of its own. Its guest has
	// a new key, and the executions that were running are there to be attached to. The spec is that of the saved sandbox, but for the
	// ID, the labels, the lifetime, and the limits of memory and CPU.
	Restore(ctx context.Context, dir string, spec Spec) (Box, error)
}

// Checkpointer is a Box that can be saved whole and lives on.
type Checkpointer interface {
	// Checkpoint writes all that the sandbox is into dir, an empty directory of the host that is the caller's alone: what lies there
	// holds all that the sandbox knew. It stands still meanwhile, and its connections end; they can be dialled again when Checkpoint
	// returns. What lies in directories of the host is not part of it. An error leaves the sandbox running, and dir without a checkpoint.
	Checkpoint(ctx context.Context, dir string) error
}

// Box is one sandbox as its backend built it.
type Box interface {
	ID() ID

	// Dial returns a byte stream to the guest, again whenever asked. GuestKey is what the guest demands on it.
	Dial(ctx context.Context) (net.Conn, error)

	// GuestKey is the random key that the guest was given at birth.
	GuestKey() [32]byte

	// Effective is what is enforced, not what was asked.
	Effective() Policy

	// Usage is what the sandbox has cost, as the host counts it. It still answers, with the last figures, after the end.
	Usage(ctx context.Context) (Usage, error)

	// Wait returns when the sandbox has ended, with how it ended as the host saw it.
	Wait(ctx context.Context) (End, error)

	// Close ends every process, frees everything and waits for both. A second call returns what the first did.
	Close() error
}

// Usage is what a sandbox or an execution has cost. A negative figure is unknown on this backend.
type Usage struct {
	Wall        time.Duration
	CPU         time.Duration // user and system, all processes
	MemoryPeak  int64         // bytes, including the files in the writable places
	MemoryNow   int64         // bytes
	OOMKills    int64         // processes that the kernel killed for want of memory, since the sandbox began
	PidsNow     int64
	DiskWritten int64
}

// End is how a sandbox ended, as the host saw it.
type End struct {
	Cause    EndCause
	ExitCode int // of the guest; -1 where a signal ended it
	Signal   int
}

// EndCause classes the end of a sandbox.
type EndCause string

// The causes of an end.
const (
	EndClosed EndCause = "closed" // Close was called
	EndGuest  EndCause = "guest"  // the guest ended by itself: lease or deadline over, server gone
	EndDied   EndCause = "died"   // killed from elsewhere
)
