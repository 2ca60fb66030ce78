package engine_test

import (
	"context"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/internal/check"
	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// pretended is a Packager that installs nothing and says that it did.
type pretended struct {
	sandbox.Packager
	before func(context.Context, sandbox.PackageNeed, sandbox.Worker) error // may be nil

	mu    sync.Mutex
	asked [][]string // the requirements of each call
}

func (p *pretended) Supply(ctx context.Context, need sandbox.PackageNeed, work sandbox.Worker) (*sandbox.Supply, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = append(p.asked, need.Requirements)
	if p.before != nil {
		if err := p.before(ctx, need, work); err != nil {
			return nil, err
		}
	}
	return &sandbox.Supply{Asked: need.Requirements, Release: func() {}}, nil
}

// installable is a language with packages.
func installable(name string) sandbox.Language {
	l := shell
	l.Name, l.Aliases, l.Extensions = name, nil, nil
	l.Installer = &sandbox.Installer{Name: "shell", At: "/opt/packages", Install: func(string) []string { return nil }}
	return l
}

func adding(language, text string, packages ...string) engine.Exec {
	asks := code(language, text)
	asks.Request.Packages = sandbox.PackagesOf(packages, false, "")
	return asks
}

// TestSharedInstaller: languages that share an installer share a folder, so what one of them adds does not replace what another has.
func TestSharedInstaller(t *testing.T) {
	p := &pretended{}
	r := newRig(t, engine.Config{Languages: []sandbox.Language{installable("one"), installable("other")}, Packages: p})
	s := r.make(t, engine.Living{})
	for _, asks := range []engine.Exec{adding("one", "true", "a"), adding("other", "true", "b"), adding("one", "true", "a")} {
		do(t, s, asks)
	}
	if want := [][]string{{"a"}, {"a", "b"}}; !slices.EqualFunc(p.asked, want, slices.Equal) {
		t.Errorf("%q; want %q", p.asked, want)
	}
}

// TestSurvey: a survey runs in the living sandbox, and is no execution of its client: it is neither checked nor listed.
func TestSurvey(t *testing.T) {
	p := &pretended{before: func(ctx context.Context, _ sandbox.PackageNeed, work sandbox.Worker) error {
		w := sandbox.Work{Survey: true, Stdin: []byte("question"), Limits: sandbox.Limits{Timeout: time.Hour, OutputBytes: 1 << 20},
			Command: func(program string) []string { return []string{program, "-c", "cat - there; exit 3 # xmrig"} }}
		r, err := work(ctx, w)
		if err == nil && (r.Status != sandbox.StatusFailed || r.ExitCode != 3 || string(r.Stdout.Head) != "question, answer") {
			t.Errorf("%+v", r)
		}
		return err
	}}
	r := newRig(t, engine.Config{Languages: []sandbox.Language{installable("one")}, Packages: p, Slots: 1,
		Max: sandbox.Limits{Timeout: time.Minute}, Checks: engine.Checks{Find: check.Policy{}.Find, Mode: sandbox.ChecksEnforce}})
	s := r.make(t, engine.Living{})
	if err := s.WriteFile(within(t), "there", 0, strings.NewReader(", answer")); err != nil {
		t.Fatal(err)
	}
	do(t, s, adding("one", "true", sandbox.PackagesAuto))
	if list := s.Executions(); len(list) != 1 || list[0].Language != "one" {
		t.Errorf("%+v", list)
	}
}
