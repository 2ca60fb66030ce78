package engine_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestCollectBounds: what a program makes and a client asks for cannot make the collection of files take long, or much memory; the result
// says that something is missing, and the status stays what it is.
func TestCollectBounds(t *testing.T) {
	rig := newRig(t, engine.Config{})
	slow := "*" + strings.Repeat("[a-z]", 200) + "b"
	for _, test := range []struct {
		name, script string
		globs        []string
		want         string
	}{
		{"patterns", `for i in {10..49}; do printf -v name '%0250d' $i; : > ${name//0/a}$i; done`, slices.Repeat([]string{slow}, engine.MaxGlobs), "the patterns took too long"},
		{"paths", `printf -v dir '%0250d' 0; for i in {1..15}; do mkdir $dir; cd $dir; done; for i in {1..4500}; do : > $i; done`, []string{"x"}, "16MiB of their paths"},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := sh("set -e; " + test.script)
			run.Request.Return.Globs = test.globs
			result := rig.run(t, run)
			if result.Status != sandbox.StatusSucceeded || len(result.Skipped) != 1 || !strings.Contains(result.Skipped[0].Reason, test.want) {
				t.Errorf("%s, left out %.300v, stderr %.300s; want %q", result.Status, result.Skipped, result.Stderr.Head, test.want)
			}
		})
	}
}
