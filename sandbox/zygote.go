package sandbox

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
)

// Startup is a script that an interpreter executes just before its program.
type Startup struct {
	Path, Script string   // the script, and where in the root it is
	Env          []string // with it added to its environment, the interpreter executes the script
}

// Zygote describes an interpreter that starts up to the point where its program would begin, waits there, and is then
// forked into sandboxes. Each program so saves the interpreter's start-up time.
type Zygote struct {
	// Startup is in the zygote's root, which otherwise equals a sandbox's root. Package confine documents what its
	// script must do.
	Startup

	// Parked is the script of an interpreter that waits in a sandbox itself, where no zygote can enter. The guest
	// documents what it must do (package guest, Park). Its folder exists only until the interpreter waits.
	Parked Startup

	// Sensitive lists prefixes of the variables that the interpreter reads before its program begins. A program that
	// needs other values for them needs another zygote.
	Sensitive []string
}

// Reads returns the variables of env that the interpreter has read before its program begins.
func (z *Zygote) Reads(env []string) []string {
	var read []string
	for _, e := range env {
		for _, prefix := range z.Sensitive {
			if strings.HasPrefix(e, prefix) {
				read = append(read, e)
				break
			}
		}
	}
	return read
}

// Forker is a Box that accepts a fork of a zygote, as long as nothing has run in it.
type Forker interface {
	// Fork puts into the sandbox the process that the guest would have started there: same isolation, same limits, same
	// user. It waits for its program. The guest must adopt it, as its child; see package guest, Adopt. ErrNoZygote
	// means that no zygote is ready now. On any error but ErrEntered, nothing has run: start normally.
	Fork(ctx context.Context, f Fork) (*Forked, error)
}

// Fork is what to fork.
type Fork struct {
	Zygote *Zygote
	Argv   []string // the command line that the zygote was started with: interpreter and program, no program arguments
	Reads  []string // the sensitive variables that the zygote was started with
	Dir    string
}

// Like reports whether a fork that was parked for other can run f.
func (f *Fork) Like(other *Fork) bool {
	return f.Zygote == other.Zygote && f.Dir == other.Dir && slices.Equal(f.Argv, other.Argv) &&
		slices.Equal(f.Reads, other.Reads)
}

// Forked is a process that waits for its program.
type Forked struct {
	PID            int        // in the sandbox
	Channel        Descriptor // our end of the socket from which it reads its program
	Stdout, Stderr Descriptor // read ends
	Close          func()     // closes our descriptors; a process that the guest has not adopted then ends
}

// Descriptor is an open file of which only the number matters, such as an *os.File.
type Descriptor interface{ Fd() uintptr }

// ErrNoZygote says that no zygote is ready.
var ErrNoZygote = errors.New("no interpreter is waiting")

// ErrNoEntry is ErrNoZygote for good: no fork may enter the sandbox.
var ErrNoEntry = fmt.Errorf("no fork may enter the sandbox: %w", ErrNoZygote)

// ErrEntered says that an unconfined fork may have entered the sandbox. No user code has run there, and none may: close
// the sandbox.
var ErrEntered = errors.New("an unconfined fork may have entered the sandbox")
