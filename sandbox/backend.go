package sandbox

import (
	"context"
	"io"
	"net"
	"time"
)

// Backend isolates sandboxes. It makes boxes and runs no commands: the guest handles processes, terminals and files, so
// each is written once for all backends and languages.
//
// Further powers are optional interfaces, found by assertion: Linker, Forker, Checkpointer, Changed, Promoter, Resizer,
// Yielder and GuestLimited on a Box; Preflighter, Featured, Rooted, Restorer, Leaser and LineBuffered on a Backend.
type Backend interface {
	// Name is how users choose this backend.
	Name() string

	// Probe reports which isolation layers are available on this host. An error says why the backend cannot work here
	// and how to fix that.
	Probe(ctx context.Context) (Posture, error)

	// Create returns a ready box, or an error with nothing left behind. The engine sets Spec.ID; the name of everything
	// made on the host derives from it. A missing layer or an unenforced named limit is an error, unless the spec
	// waives it.
	Create(ctx context.Context, spec Spec) (Box, error)

	// Reap destroys boxes that nobody owns any more: one-shot boxes of dead servers, boxes whose creation was never
	// completed, and the remains of living boxes (Lifetime.Living) whose guest has ended. It never ends a living box.
	// It is idempotent.
	Reap(ctx context.Context) error

	// Reattach takes over a living box that its server left, by its death or by Close. Errors: NotFound, no such box,
	// with the reason in Msg if it is known; Exists, a living process owns it; Busy, another process is at it, so try
	// again. An error leaves the box as it was.
	Reattach(ctx context.Context, id ID) (Box, error)

	// Close releases what the backend holds. It never ends a living box, which anybody may then reattach.
	Close() error
}

// Preflighter is a Backend that predicts what Create would do with a complete spec.
type Preflighter interface {
	// Preflight returns the limits that would not be enforced, and the error with which Create would refuse the spec.
	// Set-up failures cannot be predicted.
	Preflight(spec Spec) (unenforced []LimitName, refusal error)
}

// Rooted is a Backend with its own default root, in place of the host's system directories.
type Rooted interface {
	Root(spec Spec) Root

	// ImageOf returns the image that a name leads to now. With fetch, it fetches a missing one where that is allowed.
	// NotFound: the image is not on this machine. The zero Image: it is unknown whether it is.
	ImageOf(ctx context.Context, name string, fetch Fetch) (Image, error)
}

// Fetch carries out a pull of an image as soon as its caller may, or returns why it may not. nil fetches nothing.
type Fetch func(ctx context.Context, pull func(context.Context) error) error

// LineBuffered is a Backend with expensive system calls. The roots of its sandboxes have the scripts of Language.Lines.
type LineBuffered interface {
	// LineBuffered reports whether interpreters should write their output by lines.
	LineBuffered() bool
}

// Restorer is a Backend that makes boxes from checkpoints.
type Restorer interface {
	// Restore returns a ready box that continues from the checkpoint in dir: memory, processes and the sandbox's own
	// files. The guest has a new key; runs that were running can be attached to. The spec equals the saved one except
	// for ID, metadata, lifetime, and the memory and CPU limits.
	Restore(ctx context.Context, dir string, spec Spec) (Box, error)
}

// Checkpointer is a Box whose whole state can be saved while it lives on.
type Checkpointer interface {
	// Checkpoint writes the sandbox's state into dir, an empty host directory that only the caller can read: the state
	// contains every secret of the sandbox. The sandbox pauses and its connections end; dial again once Checkpoint
	// returns. Host directories are not saved. On an error the sandbox runs on, and dir holds no checkpoint.
	Checkpoint(ctx context.Context, dir string) error
}

// Leaser is a Backend whose guests may be on another host. A broken connection does not mean there that the server has
// ended, so living sandboxes have a lease even if they end with their server.
type Leaser interface{ Leases() bool }

// Promoter is a Box that can become a living one.
type Promoter interface {
	// Promote makes Reap spare the box and Reattach find it. A one-shot box's guest still ends with its server until
	// the caller has given it the lease (Lifetime.GuestLease), which must come second. The connection that tells the
	// guest of the server's death stays open meanwhile. Further calls replace the recorded lifetime.
	Promote(ctx context.Context, lifetime Lifetime) error
}

// Box is one sandbox as its backend built it.
type Box interface {
	ID() ID

	// Dial returns a new byte stream to the guest on each call. The guest demands GuestKey on it.
	Dial(ctx context.Context) (net.Conn, error)

	// GuestKey is the random key given to the guest at its start.
	GuestKey() [32]byte

	// Effective is what is enforced, which may differ from what was requested.
	Effective() Policy

	// Usage is what the sandbox has used, as the host counts it. After the end it returns the last figures.
	Usage(ctx context.Context) (Usage, error)

	// Wait returns once the sandbox has ended, and how, as the host saw it.
	Wait(ctx context.Context) (End, error)

	// Close ends every process, frees everything and waits for both. If it could not end the processes, a further call
	// tries again; otherwise that returns the first result.
	Close() error
}

// Changed is a Box with a writable root.
type Changed interface {
	// Changes ends every process of the sandbox, and writes what they have changed in its root as an uncompressed layer
	// (OCI image specification, layer.md). The layer is hostile. It has neither devices nor the sandbox's own files.
	Changes(ctx context.Context, w io.Writer) error
}

// Resizer is a Box whose limits can change while it lives. Resize enforces the limits of memory and CPUs that are not
// 0. It is Invalid to limit memory below what the sandbox uses. Effective stays as it was: the engine keeps the change.
type Resizer interface {
	Resize(ctx context.Context, l Limits) error
}

// Yielder is a Box that may give way to other boxes that want CPU time: Yield(n) gives it 1/n of the usual weight among
// them, or the least that the host supports.
type Yielder interface {
	Yield(part int) error
}

// GuestLimited is a Box whose guest may kill processes at the memory limit. The host's Usage does not count these.
type GuestLimited interface {
	GuestLimited() bool
}

// Usage is what a sandbox or a run has used. A negative figure is unknown on this backend.
type Usage struct {
	Wall        time.Duration
	CPU         time.Duration // user and system, all processes
	MemoryPeak  int64         // bytes, including the files in the writable places
	MemoryNow   int64         // bytes
	OOMKills    int64         // processes killed for lack of memory since the sandbox began
	PidsNow     int64
	PidsRefused int64 // forks and threads that the kernel refused at the limit, since the sandbox began
	DiskWritten int64
}

// End is how a sandbox ended, as the host saw it.
type End struct {
	Cause    EndCause
	ExitCode int // of the guest; -1 where a signal ended it
	Signal   int
}

// EndCause classifies the end of a sandbox.
type EndCause string

// The causes of an end.
const (
	EndClosed EndCause = "closed" // Close was called
	EndGuest  EndCause = "guest"  // the guest ended by itself: lease or deadline over, server gone
	EndDied   EndCause = "died"   // killed from elsewhere; with neither code nor signal, unknown
)
