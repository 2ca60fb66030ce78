package engine_test

import (
	"context"
	"slices"
	"sync"
	"testing"

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

func adding(language, text string, packages ...string) engine.Exec {
	asks := code(language, text)
	asks.Request.Packages = sandbox.PackagesOf(packages, false, "")
	return asks
}

// TestSharedInstaller: languages that share an installer share a folder, so what one of them adds does not replace what another has.
func TestSharedInstaller(t *testing.T) {
	p := &pretended{}
	one := shell
	one.Installer = &sandbox.Installer{Name: "shell", At: "/opt/packages", Install: func(string) []string { return nil }}
	other := one
	other.Name, other.Aliases, other.Extensions = "other", nil, nil
	r := newRig(t, engine.Config{Languages: []sandbox.Language{one, other}, Packages: p})
	s := r.make(t, engine.Living{})
	for _, asks := range []engine.Exec{adding("shell", "true", "a"), adding("other", "true", "b"), adding("shell", "true", "a")} {
		do(t, s, asks)
	}
	if want := [][]string{{"a"}, {"a", "b"}}; !slices.EqualFunc(p.asked, want, slices.Equal) {
		t.Errorf("%q; want %q", p.asked, want)
	}
}
