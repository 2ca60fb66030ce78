// Package gvisor builds sandboxes whose system calls gVisor's kernel serves in user space: the code never calls the
// host's kernel directly. It uses gVisor's own runsc, built from its module and shipped with this program.
//
// A sandbox is one runsc container whose first process is the guest. The host dials a unix socket that the guest makes
// in a host folder. All host processes of a sandbox are in one control group, and end with it.
package gvisor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Backend = (*Backend)(nil)

const Name = "gvisor"

type Options struct {
	// Guest is the guest program. The backend copies it to a path where runsc can open it.
	Guest *os.File

	// Runsc returns the runsc program, preferably a sealed memory file. The backend calls it for the first sandbox, and
	// closes the file with itself.
	Runsc func() (*os.File, error)

	Lines []*sandbox.Startup // the scripts of Language.Lines, for every root

	Images hostbox.Images // roots of sandboxes; nil supports no images

	// RunDir is the folder of live state: locks, bundles, sockets.
	RunDir string

	Recheck time.Duration // of dead owners with living boxes, by Reap; 0 is always

	// HostIDs is the file in which all backends claim host user ids.
	HostIDs string

	// Stderr receives runsc's last output; nil is the null device.
	Stderr *os.File

	// FailAt makes the named creation step fail. For the test of all steps.
	FailAt string

	// Lack names cgroup controllers that this host pretends to lack. For the test of all downgrades.
	Lack []string
}

type Backend struct {
	hostbox.Base
	options Options
	null    *os.File
	stderr  *os.File
	caller  hostid.Caller

	mu        sync.Mutex // guards these
	roots     map[rootKey]*root
	rootsMade int // total made so far

	programMu sync.Mutex // guards program; held during its search or build
	program   *os.File   // runsc; nil until the first sandbox is made
}

// New returns a backend. It does no I/O.
func New(o Options) (*Backend, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	b := &Backend{Base: hostbox.Base{Backend: Name, RunDir: o.RunDir, FailAt: o.FailAt, Images: o.Images,
		Recheck: o.Recheck},
		options: o, null: null,
		stderr: o.Stderr, roots: map[rootKey]*root{}, caller: hostid.ReadCaller()}
	if b.stderr == nil {
		b.stderr = null
	}
	return b, nil
}

// LineBuffered is true: a system call takes 12 to 16 microseconds.
func (b *Backend) LineBuffered() bool { return len(b.options.Lines) > 0 }

// guestFile is a copy of the guest program in an instance's folder.
const guestFile = "guest"

// runsc opens the program once. After a failure, the next call looks again.
func (b *Backend) runsc() (*os.File, error) {
	b.programMu.Lock()
	defer b.programMu.Unlock()
	if b.program != nil {
		return b.program, nil
	}
	program, err := b.options.Runsc()
	if err == nil {
		b.program = program
	}
	return program, err
}

// closeRunsc closes the program if it was opened.
func (b *Backend) closeRunsc() error {
	b.programMu.Lock()
	defer b.programMu.Unlock()
	if b.program == nil {
		return nil
	}
	err := b.program.Close()
	b.program = nil
	return err
}

func (b *Backend) instance() (*instance.Instance, error) {
	return b.Opened(instance.Open, func(in *instance.Instance) error {
		if len(b.options.Lack) > 0 {
			in.Tree.Lose(b.options.Lack...)
		}
		return copyFile(filepath.Join(in.Dir, guestFile), b.options.Guest)
	})
}

// copyFile copies an open program from its beginning.
func copyFile(to string, from *os.File) error {
	info, err := from.Stat()
	if err != nil {
		return err
	}
	f, err := os.OpenFile(to, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o555)
	if err != nil {
		return err
	}
	_, err = io.Copy(f, io.NewSectionReader(from, 0, info.Size()))
	return errors.Join(err, f.Chmod(0o555), f.Close()) // whatever the umask is
}

// The creation steps at which FailAt can fail.
const (
	failSocket = "make socket folder"
	failBundle = "write bundle"
	failMap    = "map ids"
	failLink   = "make network interface"
	failStart  = "start runsc"
	failGuest  = "await guest"
)

// HostSteps lists the steps on the host's side at which FailAt can fail.
var HostSteps = []string{hostbox.StepDir, hostbox.StepIDs, hostbox.StepGroup, failSocket, failBundle, failLink,
	failStart, failGuest, hostbox.StepRecord}

func at(step string, err error) error { return hostbox.At(Name, step, err) }

// Reap destroys the boxes of instances without an owner, except living boxes.
func (b *Backend) Reap(ctx context.Context) error { return b.ReapBy(ctx, mainOf, processesOf) }

// Close releases this process's instance and its reattached boxes. It ends no living box.
func (b *Backend) Close() error { return errors.Join(b.Base.Close(), b.closeRunsc(), b.null.Close()) }
