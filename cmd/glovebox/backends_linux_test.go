package main

import (
	"bytes"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/backend"
	"github.com/glovebox-dev/glovebox/internal/backend/backendtest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// imaged is a fake backend that has images, or has none, and works, or does not.
type imaged struct {
	*backendtest.Fake
	name   string
	images bool
	broken error
}

func (b imaged) Name() string { return b.name }
func (b imaged) Features() []sandbox.Feature {
	return []sandbox.Feature{{Name: sandbox.FeatureImage, Has: b.images}}
}
func (b imaged) Preflight(sandbox.Spec) ([]sandbox.LimitName, error) { return nil, b.broken }

// TestImageChoosesBackend: an image without a backend gets the first backend with images that works here.
func TestImageChoosesBackend(t *testing.T) {
	down := &sandbox.Error{Kind: sandbox.Unavailable, Op: "one", Msg: "no engine answers", Fix: "start it"}
	fake := backendtest.NewFake(t)
	none, one, other := imaged{fake, "none", false, nil}, imaged{fake, "one", true, down}, imaged{fake, "other", true, nil}
	for _, test := range []struct {
		flags    []string
		backends []sandbox.Backend
		out, err string
	}{
		{nil, []sandbox.Backend{none, one, other}, "backend      other\n", ""},
		{[]string{"--backend", "auto"}, []sandbox.Backend{none, one, other}, "backend      other\n", ""},
		{[]string{"--backend", "none"}, []sandbox.Backend{none, one, other}, "", "fix: --backend one or --backend other\n"},
		{nil, []sandbox.Backend{none, one}, "", "error: --image: no backend with images works here: one: no engine answers\nfix: start it\n"},
	} {
		var out, errs bytes.Buffer
		m := testApp(t).Main
		m.Stdout, m.Stderr = &out, &errs
		m.Backends = func(backend.Options) (*backend.Set, error) { return &backend.Set{Backends: test.backends}, nil }
		m.Run(t.Context(), append(append([]string{"run", "--dry-run", "--image", "alpine"}, test.flags...), "--", "ls"))
		if !bytes.Contains(out.Bytes(), []byte(test.out)) || !bytes.Contains(errs.Bytes(), []byte(test.err)) {
			t.Errorf("%v: stdout %q, stderr %q", test.flags, &out, &errs)
		}
	}
}

// TestDoctorAutoFindsNone: if no backend is usable, doctor reports why for each.
func TestDoctorAutoFindsNone(t *testing.T) {
	var out bytes.Buffer
	m := testApp(t).Main
	m.Stdout = &out
	down := imaged{backendtest.NewFake(t), "down", true, &sandbox.Error{Kind: sandbox.Unsupported, Op: "down", Msg: "cannot", Fix: "start it"}}
	m.Backends = func(backend.Options) (*backend.Set, error) {
		return &backend.Set{Backends: []sandbox.Backend{down}}, nil
	}
	code := m.Run(t.Context(), []string{"doctor", "--backend", "auto"})
	if want := "not ready: choose a backend: none works on this host: down: cannot (start it)\nfix: "; code != exitNotReady || !bytes.Contains(out.Bytes(), []byte(want)) {
		t.Errorf("exit code %d: %s", code, &out)
	}
}
