package backendtest

import (
	"bytes"
	"context"
	_ "embed"
	"errors"
	"maps"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// posturePy prints the isolation that it sees, one fact a line, then the end of the record, and waits.
//
//go:embed posture.py
var posturePy []byte

const recordEnd = "END\n"

// errRecorded ends the output of a program whose record is complete.
var errRecorded = errors.New("recorded")

// Postured is a backend with a recorded posture.
type Postured struct {
	// Name begins the records' names, if a package has several backends.
	Name string

	// Open returns a new backend.
	Open Open

	// Settle returns once the backend makes boxes of the usual kind. nil if there is only one kind.
	Settle func(sandbox.Backend)

	// Variant names the kind of box of a record. nil if all boxes are made alike.
	Variant func(lines []string) string

	// Restart returns two backends that share their state, and a function that simulates the death of the first.
	Restart func(t *testing.T) (dying, next sandbox.Backend, die func())

	// Python is the language that takes the record, and whose forks are recorded if the backend makes any.
	Python sandbox.Language

	// Image names an image with Python on the backends of Open. "" records none.
	Image string

	// Accept lists the limits that this host cannot enforce.
	Accept []string
}

// ways are the ways in which code comes into a sandbox.
const (
	wayFirst    = "first"    // in the first box of a backend
	wayCold     = "cold"     // in a new box
	wayPool     = "pool"     // in a pooled box
	wayFork     = "fork"     // in a fork of a waiting interpreter, which only root can make
	wayParked   = "parked"   // in an interpreter that waited in its box
	wayAttach   = "attach"   // in a used box, on another connection
	wayReattach = "takeback" // in a box that a restarted server reattached
	onImage     = "image/"   // begins a way with the root of an image
)

// Posture records the isolation around code in a sandbox, as seen from inside and, for its processes, from the host,
// for every thread. The record must equal the reviewed one in testdata/posture, however the code came into the sandbox;
// differences in a fork are reviewed too. With the root of an image, optional files of the host's root may be missing.
func Posture(t *testing.T, p Postured) {
	ForCheck(t, "what is recorded are facts of the host")
	r := &postures{T: t, Postured: p}
	if p.Settle != nil {
		r.record(wayFirst, func(t *testing.T) []string { return r.alone(t, p.Open(t), false) })
	}
	r.record(wayCold, r.cold)
	r.record(wayPool, r.fromPool)
	if os.Geteuid() == 0 && sandbox.HasFeature(p.Open(t), sandbox.FeatureForkedPython) {
		r.record(wayFork, r.forked)
	} else {
		r.record(wayParked, r.parked)
	}
	r.record(wayAttach, r.attached)
	r.record(wayReattach, r.reattached)
	if p.Image != "" {
		r.spec.Root.Image = p.Image
		r.record(onImage+wayCold, r.cold)
		r.record(onImage+wayPool, r.fromPool)
		r.record(onImage+wayParked, r.parked) // interpreters of images are not forked
	}
	if !t.Failed() {
		r.compare()
	}
}

// postures are one backend's records on this host.
type postures struct {
	*testing.T
	Postured
	spec    sandbox.Spec // of the runs
	kind    string       // of host, by its effect on what is enforced
	records []record
}

func (r *postures) record(way string, take func(t *testing.T) []string) {
	r.Run(way, func(t *testing.T) {
		ours := procNamespaces(os.Getpid())
		lines := take(t)
		if now := procNamespaces(os.Getpid()); !maps.Equal(now, ours) {
			t.Errorf("the namespaces of this process were %v and are %v", ours, now)
		}
		slices.Sort(lines)
		taken := record{way: way, lines: slices.Compact(lines)}
		if r.Variant != nil {
			taken.variant = r.Variant(lines)
		}
		r.records = append(r.records, taken)
	})
}

// witness is a backend that remembers its boxes.
type witness struct {
	sandbox.Backend
	sandbox.Rooted
	mu    sync.Mutex // guards boxes
	boxes []sandbox.Box
}

func (w *witness) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	box, err := w.Backend.Create(ctx, spec)
	if err == nil {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.boxes = append(w.boxes, box)
	}
	return box, err
}

// alive returns the one box that has not ended, or nil.
func (w *witness) alive() (alive sandbox.Box) {
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, box := range w.boxes {
		if len(processesOfBox(box)) > 0 {
			if alive != nil {
				return nil
			}
			alive = box
		}
	}
	return alive
}

// house returns an engine over a backend that keeps warm boxes of a spec, or none.
func (r *postures) house(t *testing.T, b sandbox.Backend, warm int, python sandbox.Language) (*engine.Engine,
	*witness) {
	t.Helper()
	w := &witness{Backend: b, Rooted: b.(sandbox.Rooted)}
	e, err := engine.New(engine.Config{Backends: []sandbox.Backend{w}, Languages: []sandbox.Language{python},
		Warm:            warm,
		Slots:           8,
		AllowUnenforced: r.Accept, Defaults: sandbox.Limits{Timeout: stepTimeout}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := e.Close(); err != nil {
			t.Error(err)
		}
	})
	return e, w
}

// unforked is the language without a waiting interpreter.
func (r *postures) unforked() sandbox.Language {
	l := r.Python
	l.Zygote = nil
	return l
}

func (r *postures) cold(t *testing.T) []string { return r.alone(t, r.Open(t), true) }

func (r *postures) alone(t *testing.T, b sandbox.Backend, settled bool) []string {
	e, w := r.house(t, b, 0, r.unforked())
	if settled {
		r.settle(b)
	}
	return r.during(t, e, w.alive)
}

func (r *postures) settle(b sandbox.Backend) {
	if r.Settle != nil {
		r.Settle(b)
	}
}

func (r *postures) fromPool(t *testing.T) []string {
	b := r.Open(t)
	r.settle(b)
	e, w := r.house(t, b, 1, r.unforked())
	box := r.warmUp(t, e, w)
	return r.during(t, e, func() sandbox.Box { return box })
}

// warmUp makes a run and returns the warm box after it, which the next run takes.
func (r *postures) warmUp(t *testing.T, e *engine.Engine, w *witness) (box sandbox.Box) {
	t.Helper()
	r.pass(t, e)
	eventually(t, "a warm box", func() bool {
		if s := e.Stats(); s.Warm == 1 && s.Live == 1 {
			box = w.alive()
		}
		return box != nil
	})
	return box
}

func (r *postures) pass(t *testing.T, e *engine.Engine) {
	t.Helper()
	result, err := e.Run(within(t),
		engine.OneShot{Spec: r.spec,
			Request: sandbox.Request{Language: r.Python.Name, Code: []byte("pass")}})
	if err != nil {
		t.Fatal(err)
	}
	wantStatus(t, result, sandbox.StatusSucceeded)
}

func (r *postures) forked(t *testing.T) []string {
	b := r.Open(t)
	r.settle(b)
	e, w := r.house(t, b, 1, r.Python)
	eventually(t, "a fork", func() bool { r.pass(t, e); return e.Stats().Forked > 0 })
	box := r.warmUp(t, e, w)
	before := e.Stats().Forked
	record := r.during(t, e, func() sandbox.Box { return box })
	if e.Stats().Forked != before+1 {
		t.Error("it was no fork")
	}
	return record
}

func (r *postures) parked(t *testing.T) []string {
	b := r.Open(t)
	r.settle(b)
	e, w := r.house(t, b, 1, r.Python)
	box := r.warmUp(t, e, w)
	record := r.during(t, e, func() sandbox.Box { return box })
	if e.Stats().Parked != 1 {
		t.Error("no interpreter waited")
	}
	return record
}

// during takes the record during a run.
func (r *postures) during(t *testing.T, e *engine.Engine, box func() sandbox.Box) []string {
	t.Helper()
	ctx, cancel := context.WithCancel(within(t))
	defer cancel()
	var out bytes.Buffer
	ready, over := make(chan struct{}), make(chan struct{})
	var result *sandbox.Result
	var err error
	go func() { // ends with the run, which ends with ctx
		defer close(over)
		result, err = e.Run(ctx, engine.OneShot{Spec: r.spec, Request: sandbox.Request{Language: r.Python.Name,
			Code: posturePy,
			Output: func(s sandbox.Stream, data []byte) {
				if s != sandbox.Stdout || bytes.HasSuffix(out.Bytes(), []byte(recordEnd)) {
					return
				}
				if out.Write(data); bytes.HasSuffix(out.Bytes(), []byte(recordEnd)) {
					close(ready)
				}
			}}})
	}()
	select {
	case <-ready:
	case <-over:
		if err == nil {
			t.Fatalf("no record was taken: %v, %s", result.Status, result.Stderr.Head)
		}
		t.Fatalf("no record was taken: %v", err)
	}
	its := box()
	if its == nil {
		t.Fatal("there is not one box alone")
	}
	record := r.both(t, out.String(), its)
	cancel()
	<-over
	return record
}

// both joins the inside view and the host's view.
func (r *postures) both(t *testing.T, inside string, box sandbox.Box) []string {
	t.Helper()
	r.kind = kindOf(box.Effective())
	if r.Name != "" {
		r.kind = r.Name + "-" + r.kind
	}
	v := viewOf(t, box)
	record := v.record()
	for line := range strings.Lines(strings.TrimSuffix(inside, recordEnd)) {
		record = append(record, "inside: "+v.named(strings.TrimSuffix(line, "\n")))
	}
	return record
}

// kindOf names the kind of host that decides a record: the sandbox's host ids, and what enforces its limits.
func kindOf(p sandbox.Policy) string {
	for _, version := range []string{"v1", "v2"} {
		if strings.Contains(p.Enforcers[sandbox.LimitMemory], "cgroup "+version) {
			return p.HostUID + "-" + version
		}
	}
	return p.HostUID + "-none"
}

// attached takes the record in the second execution of a box.
func (r *postures) attached(t *testing.T) []string {
	b := r.Open(t)
	r.settle(b)
	e, _ := r.house(t, b, 0, r.unforked())
	s := &suite{backend: b}
	spec := spec()
	spec.AllowUnenforced = r.Accept
	box := s.create(t, spec)
	if out, err := shellOutput(within(t), box, "echo before"); err != nil || out != "before\n" {
		t.Fatalf("%q, %v", out, err)
	}
	return r.execute(t, e, box)
}

// reattached takes the record in a box whose first server has died.
func (r *postures) reattached(t *testing.T) []string {
	dying, next, die := r.Restart(t)
	r.settle(dying)
	e, _ := r.house(t, next, 0, r.unforked())
	spec := spec()
	spec.AllowUnenforced, spec.Lifetime.Living = r.Accept, true
	old, err := dying.Create(within(t), spec)
	if err != nil {
		t.Fatal(err)
	}
	if out, err := shellOutput(within(t), old, "echo before"); err != nil || out != "before\n" {
		t.Fatalf("%q, %v", out, err)
	}
	die()
	box, err := next.Reattach(within(t), spec.ID)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	})
	return r.execute(t, e, box)
}

// execute starts a program in an existing box as the engine would.
func (r *postures) execute(t *testing.T, e *engine.Engine, box sandbox.Box) []string {
	t.Helper()
	plan, err := e.Plan(within(t), engine.OneShot{Request: sandbox.Request{Language: r.Python.Name, Code: posturePy}})
	if err != nil {
		t.Fatal(err)
	}
	c := dial(t, box)
	if err := c.WriteFile(within(t), guest.WriteFile{Path: plan.CodePath, Atomic: true, MakeParent: true},
		bytes.NewReader(posturePy)); err != nil {
		t.Fatal(err)
	}
	process, err := c.Start(within(t), guest.Start{ID: string(sandbox.NewID()), Argv: plan.Argv, Env: plan.Env,
		Dir: plan.Dir, User: plan.Spec.User,
		Deadline: stepTimeout})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(process.Close)
	var out, errs bytes.Buffer
	if _, err := process.Stream(within(t), func(o guest.Output) error {
		if o.Stream == sandbox.Stdout {
			out.Write(o.Data)
		} else {
			errs.Write(o.Data)
		}
		if bytes.HasSuffix(out.Bytes(), []byte(recordEnd)) {
			return errRecorded
		}
		return nil
	}, true); !errors.Is(err, errRecorded) {
		t.Fatalf("no record was taken: %v %s", err, errs.Bytes())
	}
	return r.both(t, out.String(), box)
}
