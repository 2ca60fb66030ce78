package gvisor

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"maps"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/internal/host/pidfd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Checkpointer = (*Box)(nil)

// Checkpoint saves the sandbox into dir. It refuses a one-shot sandbox: saving cuts connections, and a one-shot sandbox
// ends with its connection.
func (box *Box) Checkpoint(ctx context.Context, dir string) error {
	box.saving.Lock()
	defer box.saving.Unlock()
	if !box.spec.Lifetime.Living {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "gvisor: checkpoint",
			Msg: "a one-shot sandbox cannot be saved",
			Fix: "create a living sandbox"}
	}
	if box.Policy.Network.Linked() {
		return notSaved("checkpoint")
	}
	if box.backend.caller.UID != 0 {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "gvisor: checkpoint", Msg: "only root can save a sandbox",
			Fix: "run fumehood as root"}
	}
	image, err := nolink.Open(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "gvisor: checkpoint", Err: err}
	}
	defer image.Close()
	if err := closeToOthers(image); err != nil {
		return err
	}
	files := map[held]bool{}
	if err = box.hold(ctx); err == nil {
		box.addHeld(files)
		err = box.save(ctx, image)
		box.addHeld(files) // what it opened before it paused
	}
	err = errors.Join(err, box.release(), box.answers())
	if err == nil {
		err = saved{Form: savedForm, Key: box.Key[:], Spec: box.spec,
			Held: slices.Collect(maps.Keys(files))}.write(image)
	}
	return at("checkpoint", err)
}

// closeToOthers restricts the checkpoint's folder to its owner: gVisor makes files that everyone may read. It refuses
// an open folder that is not empty.
func closeToOthers(image *os.File) error {
	bad := func(msg string) error {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "gvisor: checkpoint", Msg: image.Name() + " " + msg,
			Fix: "mkdir -m 0700 NEW_FOLDER, and save there"}
	}
	var st unix.Stat_t
	if err := unix.Fstat(int(image.Fd()), &st); err != nil {
		return &os.PathError{Op: "fstat", Path: image.Name(), Err: err}
	}
	switch {
	case int(st.Uid) != os.Geteuid():
		return bad("belongs to another user")
	case st.Mode&0o077 == 0:
		return nil
	}
	if names, err := image.Readdirnames(1); len(names) > 0 || err != io.EOF {
		return bad("is accessible to others and not empty")
	}
	return image.Chmod(0o700)
}

// answerTimeout bounds how long a guest may take to make its socket again, on a busy host.
const answerTimeout = 30 * time.Second

// answers waits until the guest can be dialed again, even after a failed checkpoint.
func (box *Box) answers() error {
	ctx, cancel := context.WithTimeout(context.Background(), answerTimeout)
	defer cancel()
	return box.awaitGuest(ctx, net.Conn.Close)
}

// forbid makes the file that keeps the guest's socket closed. The guest can write to the folder, so forbid never opens
// an existing file or link.
func (box *Box) forbid() error {
	if err := box.release(); err != nil {
		return err
	}
	f, err := os.OpenFile(box.holdFile(), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return f.Close()
}

// hold makes the guest close its socket: gVisor cannot save a socket bound on the host.
func (box *Box) hold(ctx context.Context) error {
	if err := box.forbid(); err != nil {
		return err
	}
	conn, err := box.Dial(ctx)
	if err != nil {
		return err
	}
	c, err := client.New(ctx, conn, box.Key)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.Hold(ctx)
}

// release lets the guest make its socket again.
func (box *Box) release() error {
	if err := os.Remove(box.holdFile()); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}

func (box *Box) holdFile() string { return filepath.Join(box.Dir, socketFolder, guest.HoldFile) }

const verbSave = "checkpoint"

// save writes the image while the sandbox pauses. It does not compress pages, as that costs much time.
func (box *Box) save(ctx context.Context, image *os.File) error {
	stderr, err := os.CreateTemp(box.Dir, "save-")
	if err != nil {
		return err
	}
	defer os.Remove(stderr.Name())
	defer stderr.Close()
	order, err := box.backend.runscOrder(stderr, append((&staging{}).runscArgv(), verbSave, "--leave-running",
		"--compression=none", imagePath, string(box.Sandbox)))
	if err != nil {
		return err
	}
	order.Files = append(order.Files, int(box.backend.null.Fd()), int(image.Fd()))
	process, err := startAt(order, box.enterStaging)
	if err != nil {
		return err
	}
	defer process.Close()
	if err := pidfd.Await(ctx, process.FD); err != nil {
		process.Kill()
		process.Wait()
		return err
	}
	if code, signal := process.Wait(); code != 0 || signal != 0 {
		return refusal(lastOutput(stderr.Name()))
	}
	return nil
}

// refusal explains why gVisor did not save a sandbox.
func refusal(said string) error {
	err := &sandbox.Error{Kind: sandbox.Unavailable, Op: "gvisor: save", Msg: said}
	switch {
	case strings.Contains(said, "bound host socket"):
		err.Kind, err.Msg, err.Fix = sandbox.Unsupported,
			"a program in the sandbox has bound a unix socket in a host directory, which cannot be saved",
			"end that program, or have it bind its socket in /tmp"
	case strings.Contains(said, unix.ENOSPC.Error()):
		err.Msg = "the file system of the checkpoint is full"
	}
	return err
}

// enterStaging moves the calling thread into the mount namespace of the box's runsc.
func (box *Box) enterStaging() error {
	if err := unix.Unshare(unix.CLONE_FS); err != nil {
		return os.NewSyscallError("unshare", err)
	}
	return os.NewSyscallError("setns", unix.Setns(box.Process.FD, unix.CLONE_NEWNS))
}

// saved is the record beside gVisor's image. It contains the saved guest's key, so only its owner may read it.
type saved struct {
	Form int          `json:"form"`
	Key  []byte       `json:"key"`
	Spec sandbox.Spec `json:"spec"`
	Held []held       `json:"held"`
}

const savedFile = "fumehood.json"

// savedForm is the version of a sandbox's layout. gVisor restores no other layout. Increment it when a bundle's mounts
// or gVisor's module change.
const savedForm = 2

// write writes the record last: a folder without it holds no checkpoint.
func (s saved) write(dir *os.File) error {
	text, err := json.Marshal(s)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join("/proc/self/fd", strconv.Itoa(int(dir.Fd())), savedFile), text, 0o600)
}
