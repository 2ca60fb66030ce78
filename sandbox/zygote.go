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
	// user. The process waits for Forked.Go before its program begins. The guest must adopt it, as its child.
	// ErrNoZygote means that no zygote is ready now. On any error but ErrEntered, nothing has run: start normally.
	Fork(ctx context.Context, f Fork) (*Forked, error)

	// Park puts a fork into the sandbox ahead: it confines itself there and waits for a Fork that is Like f. Args and
	// Env are not used. The guest ends a parked fork before it starts a program. Errors are those of Fork.
	Park(ctx context.Context, f Fork) error
}

// Fork is what to fork.
type Fork struct {
	Zygote *Zygote
	Argv   []string // the command line that the zygote was started with: interpreter and program, no program arguments
	Reads  []string // the sensitive variables that the zygote was started with

	Args []string // of the program
	Env  []string // complete
	Dir  string
}

// Like reports whether a fork that was parked for other can run f.
func (f *Fork) Like(other *Fork) bool {
	return f.Zygote == other.Zygote && f.Dir == other.Dir && slices.Equal(f.Argv, other.Argv) &&
		slices.Equal(f.Reads, other.Reads)
}

// Parked returns the part of f that a parked fork needs; nil for nil.
func (f *Fork) Parked() *Fork {
	if f == nil {
		return nil
	}
	return &Fork{Zygote: f.Zygote, Argv: f.Argv, Reads: f.Reads, Dir: f.Dir}
}

// Forked is a process that waits for its program to begin.
type Forked struct {
	PID            int          // in the sandbox
	Stdout, Stderr Descriptor   // read ends
	Go             func() error // lets the program begin
	Close          func()       // releases everything; a process before Go ends
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
