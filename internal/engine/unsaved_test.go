package engine_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// fullDisk is a keeper whose saves fail while full is set. Its boxes have memory limits that change.
type fullDisk struct {
	*keeper
	full    atomic.Bool
	refuse  func(sandbox.Record) bool // these records, too; may be nil
	created func(sandbox.Spec)        // may be nil
	memory  atomic.Int64              // the limit of the last box
}

func (d *fullDisk) Save(r sandbox.Record) (int, error) {
	if d.full.Load() || d.refuse != nil && d.refuse(r) {
		time.Sleep(d.slow)
		return 0, errors.New("the disk is full")
	}
	return d.keeper.Save(r)
}

func (d *fullDisk) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	if d.created != nil {
		d.created(spec)
	}
	d.memory.Store(spec.Limits.MemoryBytes)
	box, err := d.keeper.Create(ctx, spec)
	return &sizedBox{box, d, spec.Limits.MemoryBytes}, err
}

func (d *fullDisk) Reattach(ctx context.Context, id sandbox.ID) (sandbox.Box, error) {
	box, err := d.keeper.Reattach(ctx, id)
	if box == nil && err == nil {
		return nil, &sandbox.Error{Kind: sandbox.NotFound}
	}
	return &sizedBox{box, d, d.record(id).Spec.Limits.MemoryBytes}, err
}

type sizedBox struct {
	sandbox.Box
	disk *fullDisk
	made int64
}

func (b *sizedBox) Effective() sandbox.Policy {
	p := b.Box.Effective()
	p.Limits.MemoryBytes = b.made
	return p
}

func (b *sizedBox) Resize(_ context.Context, l sandbox.Limits) error {
	if l.MemoryBytes != 0 {
		b.disk.memory.Store(l.MemoryBytes)
	}
	return nil
}

func onFullDisk(t *testing.T, p sandbox.Packager) (*fullDisk, func(stateDir string) *engine.Engine) {
	k, _ := keeping(t)
	d := &fullDisk{keeper: k}
	return d, func(stateDir string) *engine.Engine {
		e, err := engine.New(engine.Config{Backends: []sandbox.Backend{d}, Languages: lang.All(), Packages: p,
			Living: engine.LivingConfig{StateDir: stateDir, Store: d}})
		if err != nil {
			t.Fatal(err)
		}
		return e
	}
}

const smaller = 300 << 20 // bytes of memory

// TestUnsavedChanges: a change that cannot be saved changes nothing: no answer reports it, the box does not have it,
// and a second attempt makes it.
func TestUnsavedChanges(t *testing.T) {
	d, open := onFullDisk(t, nil)
	e := open(t.TempDir())
	defer e.Close()
	s, _, err := e.Create(within(t), engine.Create{})
	if err != nil {
		t.Fatal(err)
	}
	c, err := s.CreateContext(within(t), engine.ContextRequest{Name: "kept"})
	if err != nil {
		t.Fatal(err)
	}
	before, memory := s.Info(), d.memory.Load()
	patch := engine.Patch{Metadata: map[string]string{"a": "b"}, Limits: sandbox.Limits{MemoryBytes: smaller},
		Ends: engine.Ends{In: engine.MaxLifetime}}
	d.full.Store(true)
	if err := s.Update(patch); err == nil {
		t.Error("a change was accepted that could not be saved")
	}
	if err := c.Delete(within(t)); err == nil {
		t.Error("a context was deleted whose end could not be saved")
	}
	if _, err := s.CreateContext(within(t), engine.ContextRequest{Name: "new"}); err == nil {
		t.Error("a context was made that could not be saved")
	}
	after := s.Info()
	after.Used, after.IdleEnds = before.Used, before.IdleEnds
	if !reflect.DeepEqual(before, after) || d.memory.Load() != memory {
		t.Errorf("changes that failed are reported:\n%+v\n%+v\nthe box has %d bytes of memory, and had %d", before,
			after, d.memory.Load(), memory)
	}
	d.full.Store(false)
	inKept := code("python", "1")
	inKept.Context = "kept"
	if r := do(t, s, inKept); r.Status != sandbox.StatusSucceeded {
		t.Errorf("the context that was not deleted does not work: %+v", r)
	}
	if err := errors.Join(s.Update(patch), c.Delete(within(t))); err != nil {
		t.Error(err)
	}
	if i := s.Info(); len(i.Contexts) != 0 || i.Spec.Metadata["a"] != "b" ||
		i.Effective.Limits.MemoryBytes != smaller || d.memory.Load() != smaller ||
		!i.Spec.Lifetime.EndsAt.After(before.Spec.Lifetime.EndsAt) ||
		!d.record(s.ID()).Spec.Lifetime.EndsAt.Equal(i.Spec.Lifetime.EndsAt) {
		t.Errorf("%+v", i)
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// TestUnsavedDeletion: a context whose deletion could not be saved stays on record, though another is saved meanwhile.
func TestUnsavedDeletion(t *testing.T) {
	d, open := onFullDisk(t, nil)
	e := open(t.TempDir())
	defer e.Close()
	s, _, err := e.Create(within(t), engine.Create{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	c, err := s.CreateContext(within(t), engine.ContextRequest{Name: "kept", Language: "python"})
	if err != nil {
		t.Fatal(err)
	}
	kept := code("python", "x = 1")
	kept.Context = "kept"
	do(t, s, kept)
	d.refuse = func(r sandbox.Record) bool { // what has no such context
		return !slices.ContainsFunc(r.Contexts, func(c sandbox.ContextRecord) bool { return c.Name == "kept" })
	}
	d.slow = 10 * time.Millisecond
	deleted := make(chan error)
	go func() {
		for range 20 {
			if err := c.Delete(within(t)); err == nil {
				deleted <- errors.New("a deletion that was refused succeeded")
				return
			}
		}
		deleted <- nil
	}()
	for n := range 8 {
		other := engine.ContextRequest{Name: fmt.Sprint("n", n), Language: "bash"}
		if _, err := s.CreateContext(within(t), other); err != nil {
			t.Errorf("context %d: %v", n, err)
		}
	}
	if err := <-deleted; err != nil {
		t.Error(err)
	}
}

// TestUnsavedPackages: packages that could not be put on record are not in the sandbox, and are added by the next run.
func TestUnsavedPackages(t *testing.T) {
	p := &cutAddition{shown: make(chan []string, 1)}
	d, open := onFullDisk(t, &alwaysLinked{p})
	e := open(t.TempDir())
	defer e.Close()
	s, _, err := e.Create(within(t), engine.Create{})
	if err != nil {
		t.Fatal(err)
	}
	d.full.Store(true)
	if _, err := s.Run(within(t), adding("python", "1", "a")); err == nil {
		t.Error("packages were added that are not on record")
	}
	d.full.Store(false)
	do(t, s, adding("python", "1", "a"))
	select {
	case <-p.shown:
	default:
		t.Error("the second addition did nothing")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}

// alwaysLinked is a Packager whose folders are whole after a failure: nothing was linked.
type alwaysLinked struct{ *cutAddition }

func (*alwaysLinked) Linked(string) bool { return true }

// TestUnansweredChanges: a server that was killed before it answered may have changed the limits of a box, or made a
// box that is not on record. The next server reports the limits that are enforced, and ends that box.
func TestUnansweredChanges(t *testing.T) {
	d, open := onFullDisk(t, nil)
	stateDir, killed := t.TempDir(), t.TempDir()
	first := open(stateDir)
	var all []*engine.Sandbox
	for range 3 {
		s, _, err := first.Create(within(t), engine.Create{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, s)
	}
	recorded, unrecorded, unread := all[0].ID(), all[1].ID(), all[2].ID()
	memory := d.memory.Load()
	d.memory.Store(smaller)
	if err := errors.Join(os.CopyFS(killed, os.DirFS(stateDir)), first.Close()); err != nil {
		t.Fatal(err)
	}
	d.full.Store(true) // to take a sandbox over needs no space
	second := open(killed)
	second.Resume(within(t), []sandbox.Record{d.record(recorded)}, unread)
	s, err := second.Sandbox(within(t), "", string(recorded))
	if err != nil {
		t.Fatal(err)
	}
	if now := s.Info().Effective.Limits.MemoryBytes; now != memory || d.memory.Load() != memory {
		t.Errorf("%d bytes of memory are reported, and %d are enforced", now, d.memory.Load())
	}
	if _, err := d.boxes[unrecorded].Wait(within(t)); err != nil {
		t.Errorf("a box without a record was not ended: %v", err)
	}
	for id, left := range map[sandbox.ID]bool{recorded: true, unrecorded: false, unread: true} {
		if _, err := os.Stat(filepath.Join(killed, string(id))); (err == nil) != left {
			t.Errorf("the folder of %s: %v", id, err)
		}
	}
	d.full.Store(false)
	if err := errors.Join(s.Close(), second.Close(), d.boxes[unread].Close()); err != nil {
		t.Error(err)
	}
}

// remote is a backend whose connections to guests may break.
type remote struct{ *fullDisk }

func (remote) Leases() bool { return true }

// TestNotKept: the box of a living sandbox outlives its server only if the engine keeps records, or if a broken
// connection does not mean that the server has ended.
func TestNotKept(t *testing.T) {
	k, _ := keeping(t)
	d, living := &fullDisk{keeper: k}, false
	d.created = func(spec sandbox.Spec) { living = spec.Lifetime.Living }
	for _, c := range []struct {
		backend  sandbox.Backend
		stateDir string
		outlives bool
	}{{d, t.TempDir(), true}, {d, "", false}, {remote{d}, "", true}} {
		e, err := engine.New(engine.Config{Backends: []sandbox.Backend{c.backend}, Languages: lang.All(),
			Living: engine.LivingConfig{StateDir: c.stateDir, Store: d}})
		if err != nil {
			t.Fatal(err)
		}
		s, _, err := e.Create(within(t), engine.Create{})
		if err != nil {
			t.Fatal(err)
		}
		if living != c.outlives {
			t.Errorf("on %T with the state folder %q, the box outlives its server: %v", c.backend, c.stateDir, living)
		}
		if err := errors.Join(s.Close(), e.Close()); err != nil {
			t.Error(err)
		}
	}
}

// TestTemporaryFolder: an engine removes the temporary folders of killed processes, and none that is in use.
func TestTemporaryFolder(t *testing.T) {
	t.Setenv("TMPDIR", t.TempDir())
	_, open := onFullDisk(t, nil)
	make := func() *engine.Engine {
		e := open("")
		if _, _, err := e.Create(within(t), engine.Create{}); err != nil {
			t.Fatal(err)
		}
		return e
	}
	folders := func() []string {
		found, err := filepath.Glob(filepath.Join(os.TempDir(), "fumehood-logs-*"))
		if err != nil {
			t.Fatal(err)
		}
		return found
	}
	first := make()
	left := filepath.Join(os.TempDir(), "fumehood-logs-left")
	err := errors.Join(os.Mkdir(left, 0o700), os.WriteFile(filepath.Join(left, "lock"), nil, 0o600))
	for _, dir := range folders() {
		err = errors.Join(err, os.Chtimes(dir, time.Time{}, time.Now().Add(-time.Hour)))
	}
	if err != nil {
		t.Fatal(err)
	}
	second := make()
	if now := folders(); len(now) != 2 || slices.Contains(now, left) {
		t.Errorf("with two engines the folders are %q", now)
	}
	if err := errors.Join(first.Close(), second.Close()); err != nil || len(folders()) != 0 {
		t.Errorf("after both ends the folders are %q, %v", folders(), err)
	}
}
