package backend_test

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/backend"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/store"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maker is a backend that notes what it made.
type maker struct {
	sandbox.Backend
	made sync.Map // lifetimes by id
}

func (m *maker) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	m.made.Store(spec.ID, spec.Lifetime)
	return m.Backend.Create(ctx, spec)
}

// TestPromoted creates a living sandbox from a warm box. It has the requested labels and environment, and it outlives
// its server like any other.
func TestPromoted(t *testing.T) {
	t.Run("without packages", func(t *testing.T) { promoted(t, nil) })
	t.Run("with packages", func(t *testing.T) { promoted(t, noPackager{}) })
}

// noPackager is never asked.
type noPackager struct{ sandbox.Packager }

func promoted(t *testing.T, packages sandbox.Packager) {
	state := t.TempDir()
	records, err := store.Open(filepath.Join(state, "records"))
	if err != nil {
		t.Fatal(err)
	}
	defer records.Close()
	m := &maker{}
	open := func() (e *engine.Engine, stop func()) {
		set, err := backend.Open(backend.Options{Libexec: os.Getenv("FUMEHOOD_LIBEXEC"),
			RunDir: filepath.Join(state, "run")})
		if err != nil {
			t.Fatal(err)
		}
		m.Backend = set.Backends[0]
		if _, err := m.Probe(t.Context()); err != nil {
			t.Skip(err)
		}
		e, err = engine.New(engine.Config{Backends: []sandbox.Backend{m}, Languages: lang.All(), Warm: 1,
			Packages: packages,
			Living:   engine.LivingConfig{StateDir: state, Store: records}})
		if err != nil {
			t.Fatal(err)
		}
		return e, func() {
			if err := errors.Join(e.Close(), set.Close()); err != nil {
				t.Error(err)
			}
		}
	}
	first, stop := open()
	spec := sandbox.Spec{AllowUnenforced: []string{"memory", "cpus", "pids"}}
	if packages == nil {
		_, err = first.Run(t.Context(), engine.OneShot{Spec: spec, Request: sandbox.Request{Language: "bash",
			Code: []byte("true")}})
	} else { // boxes that can get packages are made for living sandboxes alone
		var other *engine.Sandbox
		if other, _, err = first.Create(t.Context(), engine.Create{Spec: spec}); err == nil {
			err = other.Close()
		}
	}
	if err != nil {
		t.Fatal(err)
	}
	for end := time.Now().Add(2 * time.Minute); first.Stats().Warm != 1; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("no sandbox waits")
		}
	}
	spec.Env, spec.Metadata = []string{"WHO=me"}, map[string]string{"of": "me"}
	s, _, err := first.Create(t.Context(), engine.Create{Name: "a", Spec: spec})
	if err != nil {
		t.Fatal(err)
	}
	if born, ok := m.made.Load(s.ID()); !ok || born.(sandbox.Lifetime).Living {
		t.Errorf("it was made for itself: %v, %+v", ok, born)
	}
	folders := func() (n int) {
		entries, err := os.ReadDir(filepath.Join(state, "packages"))
		if err != nil && packages != nil {
			t.Error(err)
		}
		for _, e := range entries {
			if _, err := os.Stat(filepath.Join(state, "packages", e.Name(), "node_modules")); err != nil {
				t.Error(err)
			}
			n++
		}
		return n
	}
	for _, m := range s.Info().Spec.Mounts {
		if _, err := os.Stat(m.Source); err != nil || !strings.Contains(m.Source, string(s.ID())) {
			t.Errorf("%+v: %v", m, err)
		}
	}
	ask := engine.RunRequest{Request: sandbox.Request{Language: "bash", Code: []byte("echo $WHO $((x += 1))")}}
	if r, err := s.Run(t.Context(), ask); err != nil || string(r.Stdout.Head) != "me 1\n" {
		t.Fatalf("%+v, %v", r, err)
	}
	stop()
	if packages != nil && folders() != 1 {
		t.Errorf("folders of %d sandboxes are left, not of 1", folders())
	}
	second, stop := open()
	defer stop()
	left, _, err := records.Load()
	if gone := second.Resume(t.Context(), left); err != nil || len(gone) != 0 {
		t.Fatalf("%+v, %v", gone, err)
	}
	found, err := second.Sandbox(t.Context(), "", "a")
	if err != nil {
		t.Fatal(err)
	}
	if r, err := found.Run(t.Context(), ask); err != nil || string(r.Stdout.Head) != "me 2\n" ||
		found.Info().Spec.Metadata["of"] != "me" {
		t.Errorf("%+v, %v", r, err)
	}
	if err := found.Close(); err != nil {
		t.Error(err)
	}
}
