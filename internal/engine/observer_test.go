package engine_test

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"slices"
	"sync"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// record keeps what it observes.
type record struct {
	mu  sync.Mutex
	all []engine.Observation
}

func (r *record) Observe(o engine.Observation) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.all = append(r.all, o)
}

func (r *record) take() []engine.Observation {
	r.mu.Lock()
	defer r.mu.Unlock()
	all := r.all
	r.all = nil
	return all
}

func kinds(all []engine.Observation) (list []engine.ObservationKind) {
	for _, o := range all {
		list = append(list, o.Kind)
	}
	return list
}

// The same events describe a one-shot run and a run in a living sandbox.
func TestObserver(t *testing.T) {
	r := &record{}
	rig := newRig(t, engine.Config{Observer: r})
	expect := func(what string, want ...engine.ObservationKind) []engine.Observation {
		t.Helper()
		all := r.take()
		if got := kinds(all); !slices.Equal(got, want) {
			t.Fatalf("%s: observed %v, want %v", what, got, want)
		}
		for _, o := range all {
			if o.Owner != "alice" || o.Time.IsZero() {
				t.Errorf("%s: %s of owner %q at %v", what, o.Kind, o.Owner, o.Time)
			}
		}
		return all
	}

	once := engine.OneShot{Owner: "alice", Request: sandbox.Request{Language: "shell", Code: []byte("exit 3")}}
	result := rig.run(t, once)
	digest := sha256.Sum256([]byte("exit 3"))
	for _, o := range expect("a one-shot run", engine.RunStarted, engine.RunEnded) {
		if o.Run != result.ID || o.Language != "shell" || o.Backend == "" || o.Sandbox == "" {
			t.Errorf("%s: run %q, language %q, backend %q, sandbox %q", o.Kind, o.Run, o.Language, o.Backend, o.Sandbox)
		}
		if got := o.Digest(); got != hex.EncodeToString(digest[:]) {
			t.Errorf("%s: digest %s", o.Kind, got)
		}
	}
	once.Deliver = func(*sandbox.Result) error { return errors.New("the client has left") }
	if _, err := rig.Run(within(t), once); err == nil {
		t.Fatal("a failed delivery is no error")
	}
	expect("a run without delivery", engine.RunStarted, engine.RunEnded)
	once.Request.Language = "no such"
	if _, err := rig.Run(within(t), once); err == nil {
		t.Fatal("an unknown language is accepted")
	}
	if o := expect("a refused run", engine.RunRefused)[0]; sandbox.KindOf(o.Err) != sandbox.Invalid {
		t.Errorf("refused with %v", o.Err)
	}

	s := rig.make(t, engine.Create{Owner: "alice", Name: "box"})
	if o := expect("a creation", engine.SandboxCreated)[0]; o.Name != "box" || o.Sandbox != s.ID() || o.Spec == nil {
		t.Errorf("created: %+v", o)
	}
	do(t, s, script("true"))
	if o := expect("a run", engine.RunStarted, engine.RunEnded)[1]; o.Sandbox != s.ID() ||
		o.Result.Status != sandbox.StatusSucceeded {
		t.Errorf("ended: %+v", o)
	}
	if err := s.Update(engine.Patch{Metadata: map[string]string{"a": "b"}}); err != nil {
		t.Fatal(err)
	}
	if o := expect("an update", engine.SandboxUpdated)[0]; o.Spec.Metadata["a"] != "b" {
		t.Errorf("updated: %v", o.Spec.Metadata)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if o := expect("an end", engine.SandboxEnded)[0]; o.Reason == "" {
		t.Error("it ended without a reason")
	}
}
