package main

import (
	"bytes"
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/backend"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// imageless is a backend without its image, which it pulls for a run.
type imageless struct{ sandbox.Backend }

func (imageless) Preflight(sandbox.Spec) ([]sandbox.LimitName, error) {
	return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "use image", Msg: "the image x is not here",
		Fix: "docker pull x"}
}

func (imageless) Create(context.Context, sandbox.Spec) (sandbox.Box, error) {
	return nil, errors.New("a box was made")
}

// TestDoctorWithoutImage: doctor pulls no image, and reports the missing one.
func TestDoctorWithoutImage(t *testing.T) {
	var out, errs bytes.Buffer
	home := t.TempDir()
	m := Main{Stdout: &out, Stderr: &errs, Exit: func(int) { t.Error("Exit was called") },
		Environ:   func() []string { return nil },
		LookupEnv: func(name string) (string, bool) { return home, name == "HOME" },
		Backends: func(o backend.Options) (*backend.Set, error) {
			if o.FetchImages {
				t.Error("images may be fetched")
			}
			return &backend.Set{Backends: []sandbox.Backend{imageless{backendtest.NewFake(t)}}}, nil
		}}
	if code := m.Run(t.Context(), []string{"doctor", "--backend", "fake"}); code != exitNotReady {
		t.Errorf("exit code %d", code)
	}
	if text := out.String(); !strings.Contains(text,
		"not ready: use image: the image x is not here\nfix: docker pull x") || strings.Contains(text,
		"a box was made") {
		t.Errorf("%s\n%s", text, errs.String())
	}
}
