package sandbox

import (
	"context"
	"errors"
	"strings"
)

// Zygote says how an interpreter can be started up to the point where its program would begin, wait there, and be forked into
// sandboxes from then on, so that a program begins without the interpreter's start.
type Zygote struct {
	// Script lies at Path in the root of the zygote, which is like that of a sandbox, but for it. With Env added to its
	// environment the interpreter executes the script before its program. Package confine says what the script is to do.
	Path, Script string
	Env          []string

	// Sensitive are beginnings of the names of variables that the interpreter reads before its program begins. A program that is
	// to see other values of them than the zygote did needs an interpreter of its own.
	Sensitive []string
}

// Reads returns what of an environment the interpreter has read when its program begins.
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

// Forker is a Box that a fork of a zygote can be put into, as long as nothing has run in it.
type Forker interface {
	// Fork puts a process into the sandbox that is what the guest would have started there: same walls, same limits, same user. It
	// waits for Forked.Go before its program begins, and is a child of the guest, which is to adopt it. ErrNoZygote says that there
	// is none now; starting the program in the ordinary way is right then and after any other error but ErrEntered, as nothing has
	// run.
	Fork(ctx context.Context, f Fork) (*Forked, error)
}

// Fork is what to fork.
type Fork struct {
	Zygote *Zygote
	Argv   []string // of the interpreter, with its program and without arguments of that: what the zygote was started with
	Reads  []string // of the environment: what the zygote was started with

	Args []string // of the program
	Env  []string // complete
	Dir  string
}

// Forked is a process that waits for its program to begin.
type Forked struct {
	PID            int          // in the sandbox
	Stdout, Stderr Descriptor   // read ends
	Go             func() error // lets the program begin
	Close          func()       // gives up what Forked holds; a process that was not let go ends
}

// Descriptor is an open file, *os.File say, for whom no more than its number counts.
type Descriptor interface{ Fd() uintptr }

// ErrNoZygote says that no zygote is ready.
var ErrNoZygote = errors.New("no interpreter is waiting")

// ErrEntered says that a fork is in the sandbox, or may come to be, that does not stand behind its walls. Nothing of the user's has run
// there, and nothing may: the sandbox is to be closed.
var ErrEntered = errors.New("a fork may be in the sandbox without its walls")
