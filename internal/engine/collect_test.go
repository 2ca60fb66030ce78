package engine_test

import (
	"fmt"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestCollectBounds: what a program makes and a client asks for cannot make the collection of files take long, or much
// memory; the result says that something is missing, and the status stays what it is.
func TestCollectBounds(t *testing.T) {
	rig := newRig(t, engine.Config{})
	slow := "*" + strings.Repeat("[a-z]", 200) + "b"
	for _, test := range []struct {
		name, script string
		globs        []string
		want         sandbox.Hint
	}{
		{"patterns", `for i in {10..49}; do printf -v name '%0250d' $i; : > ${name//0/a}$i; done`,
			slices.Repeat([]string{slow}, plan.MaxGlobs), sandbox.HintPatterns},
		{"paths", `printf -v dir '%0250d' 0; for i in {1..15}; do mkdir $dir; cd $dir; done; for i in {1..4500}; do : > $i; done`, []string{"x"}, sandbox.HintUnlisted},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := sh("set -e; " + test.script)
			run.Request.Return.Globs = test.globs
			result := rig.run(t, run)
			if result.Status != sandbox.StatusSucceeded || len(result.Hints) != 1 || result.Hints[0] != test.want {
				t.Errorf("%s, hints %+v, stderr %.300s; want %q", result.Status, result.Hints, result.Stderr.Head,
					test.want)
			}
		})
	}
}

// TestCollectCounts: every new file is returned, named as skipped, or counted.
func TestCollectCounts(t *testing.T) {
	rig := newRig(t, engine.Config{})
	for _, made := range []int{1500, 5000} {
		run := sh(fmt.Sprintf("for i in {1..%d}; do : > $i.txt; done; ln -s x link.txt", made))
		run.Request.Return = sandbox.Return{Globs: []string{"*.txt"}, MaxFiles: 40}
		result := rig.run(t, run)
		named := len(result.Skipped)
		if len(result.Files) != 40 || named+result.SkippedMore != made-40+1 ||
			result.Hints[0].(sandbox.HintSkipped).Count != made-40+1 {
			t.Errorf("of %d files %d came, %d are named as left out and %d counted: %+v", made, len(result.Files),
				named, result.SkippedMore, result.Hints)
		}
		for _, s := range result.Skipped {
			if s.Path == "" || s.Code != sandbox.SkipTooMany && s.Code != sandbox.SkipSymlink {
				t.Errorf("left out: %+v", s)
			}
		}
	}
}

// TestMissedFiles: hints report patterns that match nothing, and files in places from which nothing is returned.
func TestMissedFiles(t *testing.T) {
	rig := newRig(t, engine.Config{})
	run := sh(`echo a > out.csv; echo b > same.txt`)
	run.Request.Return.Globs = []string{"*.csv", "*.png", "d/**"}
	if h := rig.run(t, run).Hints; len(h) != 1 ||
		!reflect.DeepEqual(h[0], sandbox.HintUnmatched{
			Patterns: []string{"*.png", "d/**"}, New: []string{"same.txt"}}) {
		t.Errorf("%+v", h)
	}
	run.Request.Return.Globs = []string{"**"}
	if h := rig.run(t, run).Hints; h != nil {
		t.Errorf("all were returned: %+v", h)
	}
}
