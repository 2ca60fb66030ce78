// Package overlay makes writable roots: a folder of the host that stays as it is, and above it a file system in memory
// with the changes, which can be read as a layer of an image.
package overlay

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/idmap"
	"github.com/fumehood-dev/fumehood/internal/host/kernel"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Root is a writable root. No path of the host leads to it: it ends with its descriptors.
type Root struct {
	mount int      // the detached mount of the whole root; -1 once it is given away
	upper *os.File // the folder of the changes
	first uint32   // host id of the root's user 0
	own   []string // paths that are no changes
}

// Options describe a writable root.
type Options struct {
	Lower  string // the folder below; its owner's ids begin at 0
	Place  string // an empty folder on which mounts are made, invisible to other processes
	First  uint32 // the host id of the root's user 0; further ids follow
	IDs    uint32 // number of ids
	Limits sandbox.Limits

	// Files are files that the root has besides, by path, which are no changes. Their folders and those of Folders are
	// made, too.
	Files   map[string]string
	Folders []string
}

// Available returns nil if this process can make writable roots, otherwise the reason and a fix.
func Available() error {
	if os.Geteuid() != 0 {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "writable root",
			Msg: "only root can map the ids of its users", Fix: "run as root"}
	}
	if v := kernel.Running(); !v.AtLeast(5, 19) {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "writable root", Msg: "this kernel is " + v.Release,
			Fix: fixKernel}
	}
	return nil
}

const fixKernel = "use Linux 5.19 or newer"

// New makes a writable root. It needs root's rights, Linux 5.19 for the ids of the lower folder, and a file system of
// it that can map ids.
func New(o Options) (*Root, error) {
	type made struct {
		*Root
		err error
	}
	result := make(chan made)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine, and its mounts with it
		r, err := o.mount()
		result <- made{r, err}
	}()
	m := <-result
	return m.Root, m.err
}

// mount makes the root in a mount namespace of the calling thread's.
func (o *Options) mount() (_ *Root, err error) {
	if err := unix.Unshare(unix.CLONE_NEWNS | unix.CLONE_FS); err != nil {
		return nil, fmt.Errorf("make a mount namespace: %w", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return nil, fmt.Errorf("make mounts private: %w", err)
	}
	lower, err := idmap.DetachRange(o.Lower, o.First, o.IDs)
	if err != nil {
		return nil, err
	}
	defer unix.Close(lower)
	memory, err := mountOf("tmpfs", "size", strconv.FormatInt(o.Limits.DiskBytes, 10),
		"nr_inodes", strconv.FormatInt(o.Limits.Inodes, 10), "mode", "0700")
	if err != nil {
		return nil, fmt.Errorf("make a file system in memory: %w", err)
	}
	defer unix.Close(memory)
	if err := unix.MoveMount(memory, "", unix.AT_FDCWD, o.Place, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return nil, fmt.Errorf("mount it: %w", err)
	}
	if err := unix.Chdir(o.Place); err != nil {
		return nil, err
	}
	for _, name := range []string{"upper", "work", "lower"} {
		if err := unix.Mkdir(name, 0o755); err != nil {
			return nil, err
		}
	}
	if err := unix.MoveMount(lower, "", unix.AT_FDCWD, "lower", unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return nil, fmt.Errorf("mount the folder: %w", err)
	}
	r := &Root{mount: -1, first: o.First}
	if r.upper, err = os.Open("upper"); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, r.Close())
		}
	}()
	if err := r.prepare(o); err != nil {
		return nil, err
	}
	// A folder of the lower one cannot be renamed (redirect_dir), so that the changes are complete by themselves.
	if r.mount, err = mountOf("overlay", "lowerdir", "lower", "upperdir", "upper", "workdir", "work",
		"redirect_dir", "off", "index", "off", "metacopy", "off", "xino", "off"); err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "make a writable root", Err: err,
			Msg: "this kernel does not combine an overlay with mapped ids", Fix: fixKernel}
	}
	return r, nil
}

// mountOf returns a detached mount of a new file system. options are names and values.
func mountOf(kind string, options ...string) (int, error) {
	f, err := unix.Fsopen(kind, unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, err
	}
	defer unix.Close(f)
	for pair := range slices.Chunk(options, 2) {
		if err := unix.FsconfigSetString(f, pair[0], pair[1]); err != nil {
			return -1, fmt.Errorf("%s: %w", pair[0], err)
		}
	}
	if err := unix.FsconfigCreate(f); err != nil {
		return -1, err
	}
	return unix.Fsmount(f, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
}

// prepare makes the root's own folders and files among the changes. The code has not begun, and the folder is empty.
func (r *Root) prepare(o *Options) error {
	upper, err := r.open()
	if err != nil {
		return err
	}
	defer upper.Close()
	owner := int(r.first)
	if err := r.upper.Chown(owner, owner); err != nil {
		return err
	}
	folder := func(name string) error {
		at := ""
		for _, part := range strings.Split(name, "/") {
			at = path.Join(at, part)
			if err := upper.Mkdir(at, 0o755); errors.Is(err, fs.ErrExist) {
				continue
			} else if err != nil {
				return err
			}
			if err := upper.Lchown(at, owner, owner); err != nil {
				return err
			}
		}
		return nil
	}
	for _, name := range o.Folders {
		r.own = append(r.own, name)
		if err := folder(name); err != nil {
			return err
		}
	}
	for name, content := range o.Files {
		r.own = append(r.own, name)
		if err := folder(path.Dir(name)); err != nil {
			return err
		}
		if err := upper.WriteFile(name, []byte(content), 0o644); err != nil {
			return err
		}
		if err := upper.Lchown(name, owner, owner); err != nil {
			return err
		}
	}
	return nil
}

// open returns the folder of the changes, out of which no path leads.
func (r *Root) open() (*os.Root, error) {
	return os.OpenRoot("/proc/self/fd/" + strconv.Itoa(int(r.upper.Fd())))
}

// Detach gives the descriptor of the mount of the whole root to the caller.
func (r *Root) Detach() int {
	fd := r.mount
	r.mount = -1
	return fd
}

// Close drops the root. A sandbox that has the mount keeps it.
func (r *Root) Close() error {
	if r == nil {
		return nil
	}
	if r.mount >= 0 {
		unix.Close(r.mount)
	}
	return r.upper.Close()
}
