// Package gvisor builds sandboxes whose system calls a kernel in user space serves, gVisor's: the code never speaks to the host's kernel.
// It is gVisor's own runsc, built from its module and shipped with this program.
//
// A sandbox is one container of runsc's whose first process is the guest. The host reaches it through a unix socket that the guest makes
// in a folder of the host's. All processes of the host that a sandbox consists of are in one control group, and end with it.
package gvisor

import (
	"context"
	"errors"
	"io"
	"os"
	"path/filepath"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/hostid"
	"github.com/glovebox-dev/glovebox/internal/instance"
	"github.com/glovebox-dev/glovebox/sandbox"
)

var _ sandbox.Backend = (*Backend)(nil)

// Name is the word by which users choose this backend.
const Name = "gvisor"

// Options configure a Backend.
type Options struct {
	// Guest is the guest program. The backend copies it to where runsc can open it by path.
	Guest *os.File

	// Runsc returns the program runsc, best a sealed memory file. It is asked for when the first sandbox is made, and closed with
	// the backend.
	Runsc func() (*os.File, error)

	// RunDir is where live state is: locks, bundles, sockets.
	RunDir string

	// HostIDs is the file in which host user ids are claimed, the same for all backends.
	HostIDs string

	// Stderr receives what runsc says last; nil is the null device.
	Stderr *os.File

	// FailAt makes the named step of creation fail. It is for the test that walks through all of them.
	FailAt string

	// Lack is what this host is to be taken to lack: controllers of control groups, by name. It is for the test that forces every
	// downgrade.
	Lack []string
}

// Backend makes sandboxes on this host.
type Backend struct {
	options Options
	null    *os.File
	stderr  *os.File
	caller  hostid.Caller

	mu        sync.Mutex // guards these
	in        *instance.Instance
	roots     map[string]*root // by the folder of the host that they show
	rootsMade int              // how many there ever were

	programMu sync.Mutex // guards program; held while it is found, or built
	program   *os.File   // runsc; nil until the first sandbox is made
}

// New returns a backend. It touches nothing yet.
func New(o Options) (*Backend, error) {
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	b := &Backend{options: o, null: null, stderr: o.Stderr, roots: map[string]*root{}, caller: hostid.ReadCaller()}
	if b.stderr == nil {
		b.stderr = null
	}
	return b, nil
}

// Name is the word by which users choose this backend.
func (b *Backend) Name() string { return Name }

// guestFile is a copy of the guest program in the folder of an instance.
const guestFile = "guest"

// runsc opens the program once. What could not be found the first time is looked for again.
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

// closeRunsc closes the program, if it was ever needed.
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

// instance opens this process's instance when it is first needed.
func (b *Backend) instance() (*instance.Instance, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.in != nil {
		return b.in, nil
	}
	in, err := instance.Open(b.options.RunDir)
	if err != nil {
		return nil, at("open instance", err)
	}
	if err := copyFile(filepath.Join(in.Dir, guestFile), b.options.Guest); err != nil {
		return nil, errors.Join(at("copy guest", err), in.Close())
	}
	if len(b.options.Lack) > 0 {
		in.Tree.Lose(b.options.Lack...)
	}
	b.in = in
	return in, nil
}

// copyFile copies an open program from its beginning, whatever its offset is.
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

// The steps of creation at which FailAt can fail.
const (
	failDir    = "make box folder"
	failIDs    = "take host ids"
	failCgroup = "make control group"
	failBundle = "write bundle"
	failMap    = "map ids"
	failStart  = "start runsc"
	failGuest  = "await guest"
	failRecord = "write record"
)

// HostSteps lists the steps on the host's side at which FailAt can fail.
var HostSteps = []string{failDir, failIDs, failCgroup, failBundle, failStart, failGuest, failRecord}

func (b *Backend) fail(step string, err error) error {
	if err == nil && b.options.FailAt == step {
		err = unix.EIO
	}
	if err == nil {
		return nil
	}
	return at(step, err)
}

// at names the step that failed. What a later step already explained keeps its words.
func at(step string, err error) error {
	var e *sandbox.Error
	if errors.As(err, &e) {
		return err
	}
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "gvisor: " + step, Err: err}
}

// Recover destroys what instances without an owner left. Boxes to keep are taken back.
func (b *Backend) Recover(ctx context.Context, keep []sandbox.ID) ([]sandbox.Box, error) {
	return instance.Recover(ctx, instance.Recovery{Run: b.options.RunDir, Keep: keep, End: reapBox, At: at,
		Reattach: func(ctx context.Context, dir string) (sandbox.Box, error) { return b.reattach(ctx, dir) }})
}

// Close gives this process's instance up. It ends no box.
func (b *Backend) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	var err error
	if b.in != nil {
		err = b.in.Close()
		b.in = nil
	}
	return errors.Join(err, b.closeRunsc(), b.null.Close())
}
