package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/attack"
	"github.com/fumehood-dev/fumehood/internal/backend"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// The guests of the fake backend are this binary, executed again.
func init() { backendtest.Become() }

// leaky is a backend of plain processes: every sandbox sees what this process planted in /tmp.
type leaky struct{ *backendtest.Fake }

func (l leaky) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	held, err := filepath.Glob("/proc/self/fd/*")
	if err != nil {
		return nil, err
	}
	for _, fd := range held {
		if place, err := os.Readlink(fd); err == nil && strings.HasPrefix(place, "/tmp/fumehood-canary-") {
			spec.Mounts = append(spec.Mounts, sandbox.Mount{Source: place, Target: "/host" + place})
		}
	}
	return l.Fake.Create(ctx, spec)
}

// verifyOn runs verify in this process on a backend of the test.
func verifyOn(t *testing.T, b sandbox.Backend, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	home := t.TempDir()
	m := Main{Stdout: &out, Stderr: &errs, Exit: func(int) { t.Error("Exit was called") },
		Environ:   func() []string { return nil },
		LookupEnv: func(name string) (string, bool) { return home, name == "HOME" },
		Backends: func(backend.Options) (*backend.Set, error) {
			return &backend.Set{Backends: []sandbox.Backend{b}},
				nil
		}}
	code = m.Run(t.Context(), append([]string{"verify"}, args...))
	return code, out.String(), errs.String()
}

// TestVerifyNotContained makes a harmless attack on isolation with a hole: the attack reads a file of the test.
func TestVerifyNotContained(t *testing.T) {
	report := filepath.Join(t.TempDir(), "report.md")
	code, stdout, stderr := verifyOn(t, leaky{backendtest.NewFake(t)}, "--only", "F01", "--report", report)
	if code != exitNotBlocked {
		t.Errorf("exit code %d", code)
	}
	for _, want := range []string{"not blocked     F01", "found: the canary came out", "it must hold: ",
		"0 blocked, 1 not blocked", "FAIL: fake did not block 1 of 1 selected attack (of "} {
		if !strings.Contains(stdout, want) {
			t.Errorf("stdout does not say %q:\n%s\n%s", want, stdout, stderr)
		}
	}
	text, err := os.ReadFile(report)
	if err != nil || !strings.Contains(string(text), "\n## Not blocked\n\n### F01: ") {
		t.Errorf("the report: %v\n%s", err, text)
	}
	code, stdout, stderr = verifyOn(t, leaky{backendtest.NewFake(t)}, "--only", "F01", "--json")
	var v verification
	if err := json.Unmarshal([]byte(stdout), &v); err != nil || code != exitNotBlocked {
		t.Fatalf("exit code %d, %v\n%s\n%s", code, err, stdout, stderr)
	}
	if v.NotBlocked != 1 || len(v.Attacks) != 1 || v.Attacks[0].Outcome != attack.NotContained ||
		len(v.Attacks[0].Findings) == 0 {
		t.Errorf("%+v", v)
	}
}

// TestVerifyCouldNot: without a sandbox to attack, verify fails.
func TestVerifyCouldNot(t *testing.T) {
	code, stdout, stderr := verifyOn(t, broken{backendtest.NewFake(t)}, "--only", "F01")
	if code != exitFailure || stdout != "" || !strings.Contains(stderr, "no sandboxes today") {
		t.Errorf("exit code %d: %s\n%s", code, stdout, stderr)
	}
}

// broken is a backend that makes no sandbox.
type broken struct{ *backendtest.Fake }

func (broken) Create(context.Context, sandbox.Spec) (sandbox.Box, error) {
	return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "broken", Msg: "no sandboxes today"}
}
