package gvisor

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"errors"
	"net"
	"os"
	"path/filepath"
	"reflect"
	"strconv"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var _ sandbox.Restorer = (*Backend)(nil)

type checkpoint struct {
	image *os.File // its folder
	key   [guest.KeySize]byte
	held  []held
}

// Restore builds a box that continues from the checkpoint in dir. Several boxes may continue from one at the same time.
func (b *Backend) Restore(ctx context.Context, dir string, spec sandbox.Spec) (sandbox.Box, error) {
	image, err := nolink.Open(dir, unix.O_DIRECTORY, 0)
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.NotFound, Op: "gvisor: restore", Err: err}
	}
	defer image.Close()
	var st unix.Stat_t
	if err := unix.Fstat(int(image.Fd()), &st); err != nil {
		return nil, &os.PathError{Op: "fstat", Path: dir, Err: err}
	}
	if int(st.Uid) != os.Geteuid() || st.Mode&0o022 != 0 { // gVisor reads and trusts it
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "gvisor: restore",
			Msg: dir + " belongs to another user, or others can write to it"}
	}
	s, err := readSaved(filepath.Join("/proc/self/fd", strconv.Itoa(int(image.Fd()))), dir)
	if err != nil {
		return nil, err
	}
	if !reflect.DeepEqual(frozen(s.Spec), frozen(spec)) {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "gvisor: restore",
			Msg: "the sandbox was saved with another root, user, mounts, network or limits",
			Fix: "request what it was created with; only memory, CPUs, lifetime and metadata may change"}
	}
	from := &checkpoint{image: image, held: s.Held}
	copy(from.key[:], s.Key)
	return b.build(ctx, spec, from)
}

// frozen returns the part of a spec that a restore cannot change.
func frozen(s sandbox.Spec) sandbox.Spec {
	s.ID, s.Metadata, s.Lifetime, s.Env, s.Named, s.AllowUnenforced, s.StandingWaivers = "", nil, sandbox.Lifetime{},
		nil,
		nil, nil, nil
	s.Limits.MemoryBytes, s.Limits.CPUMillis, s.Limits.Timeout, s.Limits.OutputBytes = 0, 0, 0, 0
	return s
}

func readSaved(dir, name string) (s saved, err error) {
	text, err := os.ReadFile(filepath.Join(dir, savedFile))
	if errors.Is(err, os.ErrNotExist) {
		return s, &sandbox.Error{Kind: sandbox.NotFound, Op: "gvisor: restore", Msg: "no checkpoint in " + name,
			Err: err}
	}
	if err == nil {
		err = json.Unmarshal(text, &s)
	}
	if err == nil && s.Form != savedForm {
		return s, &sandbox.Error{Kind: sandbox.Invalid, Op: "gvisor: restore",
			Msg: "the checkpoint in " + name + " is of another version of Fumehood",
			Fix: "save it again, or restore it with that version"}
	}
	if err == nil && len(s.Key) != guest.KeySize {
		err = errors.New("its key is invalid")
	}
	if err != nil {
		return s, &sandbox.Error{Kind: sandbox.Invalid, Op: "gvisor: restore",
			Msg: "the checkpoint in " + name + " is damaged", Err: err}
	}
	return s, nil
}

// entropyBytes of entropy go into a restored kernel: else all sandboxes from one image would draw the same random
// numbers.
const entropyBytes = 64

// rename gives a restored guest its new key, name and lease.
func (box *Box) rename(ctx context.Context, conn net.Conn, from *checkpoint) error {
	c, err := client.New(ctx, conn, from.key)
	if err != nil {
		return err
	}
	defer c.Close()
	running, err := c.List(ctx)
	if err != nil {
		return err
	}
	again := guest.Reborn{Key: box.Key[:], ID: string(box.Sandbox), Entropy: make([]byte, entropyBytes),
		Clock: time.Now(), Lease: box.spec.Lifetime.GuestLease()}
	rand.Read(again.Entropy)
	for _, p := range running {
		again.Keep = append(again.Keep, p.ID)
	}
	if err := c.Reborn(ctx, again); err != nil || !box.GuestLimited() {
		return err
	}
	_, err = c.Memory(ctx, box.spec.Limits.MemoryBytes)
	return err
}
