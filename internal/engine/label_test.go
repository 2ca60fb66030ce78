package engine_test

import (
	"bytes"
	"context"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/cputime"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// isLabelled reports whether a goroutine of a test works for alice.
func isLabelled(t *testing.T) bool {
	var all bytes.Buffer
	if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
		t.Fatal(err)
	}
	return slices.ContainsFunc(strings.Split(all.String(), "\n\n"), func(stack string) bool {
		return strings.Contains(stack, t.Name()) && strings.Contains(stack, `"alice"`)
	})
}

// TestLabelOfOutput: taking output of a run without a slot is work of its client.
func TestLabelOfOutput(t *testing.T) {
	s := newRig(t, engine.Config{Languages: lang.All()}).make(t, engine.Create{})
	for _, x := range []engine.RunRequest{script("echo a"), code("python", "print(1)")} {
		x.Detach()
		got := make(chan bool, 100)
		x.Request.Output = func(sandbox.Stream, []byte) { got <- isLabelled(t) }
		run, err := s.Start(cputime.Label(within(t), "alice"), x)
		cputime.Clear()
		if err != nil {
			t.Fatal(err)
		}
		if <-run.Done(); !<-got {
			t.Error("it is not labelled")
		}
	}
}

// TestLabelOfPackages: until a run has a slot, finding its packages is work of its client.
func TestLabelOfPackages(t *testing.T) {
	isLabelled := func() bool { return isLabelled(t) }
	var found, shown []bool
	p := &pretended{before: func(context.Context, sandbox.PackageNeed, sandbox.Worker) error {
		found = append(found, isLabelled())
		return nil
	}}
	r := newRig(t, engine.Config{Languages: []sandbox.Language{installable("shell")}, Packages: p})
	s := r.make(t, engine.Create{})
	ctx := cputime.Label(within(t), "alice")
	defer cputime.Clear()
	asks := adding("shell", "true", "a")
	asks.Request.Progress = func(string) {}
	if _, err := r.Run(ctx, engine.OneShot{Request: asks.Request}); err != nil {
		t.Fatal(err)
	}
	p.show = func() error {
		shown = append(shown, isLabelled())
		return nil
	}
	if _, err := s.Run(ctx, asks); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(found, []bool{true, true}) || !slices.Equal(shown, []bool{false}) || !isLabelled() {
		t.Error(found, shown)
	}
}
