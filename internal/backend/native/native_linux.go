// Package native builds sandboxes from Linux namespaces, control groups, Landlock and seccomp, as root or as an
// ordinary user. The sandbox shares the host's kernel.
//
// The guest is its own set-up stage: it is spawned in new namespaces, builds the root, confines itself, and is then pid
// 1 of the sandbox. Nothing else is executed before the code's interpreter.
package native

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/hostbox"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Backend = (*Backend)(nil)

const Name = "native"

type Options struct {
	// Guest is the guest program, preferably a sealed memory file, so that nothing can change what runs as pid 1. The
	// backend keeps its own descriptor.
	Guest *os.File

	Images hostbox.Images // roots of sandboxes; nil supports no images

	// RunDir is the folder of live state: locks, claims of ids, sockets.
	RunDir string

	Recheck time.Duration // of dead owners with living boxes, by Reap; 0 is always

	// GuestStderr receives a failing guest's last output; nil is the null device.
	GuestStderr *os.File

	// FailAt makes the named creation step fail. For the test of all steps.
	FailAt string

	// Lack names cgroup controllers, or LackLandlock, that this host pretends to lack. For the test of all downgrades.
	Lack []string
}

// LackLandlock in Options.Lack means a kernel without Landlock.
const LackLandlock = "landlock"

type Backend struct {
	hostbox.Base
	options  Options
	program  *os.File
	null     *os.File
	guestErr *os.File
	kernel   kernelFacts
	user     hostid.Caller
	filters  sync.Map // compiled policy by seccomp.Options

	templates      templates // for sandboxes with one processor and without layers
	otherTemplates sync.Map  // *templates by the number of processors and the mount points of layers and volumes
	templateCount  atomic.Int32
	zygotes        zygotes
	entries        entries
	hoards         hoards
	hostMu         sync.Mutex // guards host
	host           []confine.Step
}

// New returns a backend. It does no I/O.
func New(o Options) (*Backend, error) {
	if o.Guest == nil {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "native: new", Msg: "no guest program"}
	}
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	b := &Backend{Base: hostbox.Base{Backend: Name, RunDir: o.RunDir, FailAt: o.FailAt, Images: o.Images,
		Recheck: o.Recheck}, options: o,
		null: null, guestErr: o.GuestStderr, kernel: readKernel(), user: hostid.ReadCaller(),
		templates: templates{processors: 1}}
	b.hoards.copies = b.kernel.keepsCopies
	if b.guestErr == nil {
		b.guestErr = null
	}
	if slices.Contains(o.Lack, LackLandlock) {
		b.kernel.landlock = 0
	}
	fd, err := unix.FcntlInt(o.Guest.Fd(), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, errors.Join(err, null.Close())
	}
	b.program = os.NewFile(uintptr(fd), guestName)
	return b, nil
}

func (b *Backend) instance() (*instance.Instance, error) {
	return b.Opened(instance.Open, func(in *instance.Instance) error {
		if len(b.options.Lack) > 0 {
			in.Tree.Lose(b.options.Lack...)
		}
		return nil
	})
}

func (b *Backend) hostSteps() (steps []confine.Step, err error) {
	b.hostMu.Lock()
	defer b.hostMu.Unlock()
	if b.host == nil {
		b.host, err = rootfs.System("/", sandbox.DefaultUser)
	}
	return b.host, err
}

// The host's failpoints, in addition to the steps of the set-up stage.
const (
	failListen = "listen"
	failSpawn  = "start guest"
	failJoin   = "join control group"
	failMap    = "map ids"
	failLink   = "make network interface"
)

// HostSteps lists the steps on the host's side at which FailAt can fail.
var HostSteps = []string{hostbox.StepDir, hostbox.StepIDs, hostbox.StepGroup, failListen, failSpawn, failJoin, failMap,
	failLink, hostbox.StepRecord}

// Reap destroys the boxes of instances without an owner, except living boxes.
func (b *Backend) Reap(ctx context.Context) error { return b.ReapBy(ctx, guestsOf, guestsOf) }

// note reports a problem that costs time but no isolation to the operator.
func (b *Backend) note(what string, err error) {
	_, _ = b.guestErr.WriteString("native: " + what + ": " + err.Error() + "\n")
}

// Close releases this process's instance and what it reattached, and ends the zygote and the templates. It ends no
// living box.
func (b *Backend) Close() error {
	b.zygotes.close()
	b.templates.close()
	b.otherTemplates.Range(func(_, ts any) bool {
		ts.(*templates).close()
		return true
	})
	b.hoards.close()
	return errors.Join(b.Base.Close(), b.null.Close(), b.program.Close())
}

// listen makes the guest's socket. Its path may exceed the 107 bytes of a unix address, so it is named through a
// descriptor of its folder.
func listen(dir string) (*os.File, error) {
	folder, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	defer folder.Close()
	l, err := net.ListenUnix("unix", &net.UnixAddr{Net: "unix",
		Name: "/proc/self/fd/" + strconv.Itoa(int(folder.Fd())) + "/" + socketFile})
	if err != nil {
		return nil, err
	}
	l.SetUnlinkOnClose(false) // the path is no longer valid, and Close removes the whole folder
	defer l.Close()
	return l.File()
}
