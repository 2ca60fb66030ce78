package attack

import (
	"os"
	"path/filepath"
	"regexp"
	"testing"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestLeftByAttack: what a host does to itself is nobody's finding, and what attacks do is one.
func TestLeftByAttack(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwd")
	for what, c := range map[string]struct {
		change func() error
		want   bool
	}{
		"a line more":    {func() error { return os.WriteFile(file, []byte("root\nnew\n"), 0o644) }, false},
		"another one":    {func() error { return replaced(file, "root\n_apt\n") }, false},
		"what they send": {func() error { return os.WriteFile(file, []byte("evil of marker"), 0o644) }, true},
		"nothing":        {func() error { return os.Truncate(file, 0) }, true},
		"another mode":   {func() error { return os.Chmod(file, 0o777) }, true},
		"it is gone":     {func() error { return os.Remove(file) }, true},
	} {
		if err := replaced(file, "root\n"); err != nil {
			t.Fatal(err)
		}
		was := sumOf(file)
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if is := sumOf(file); is == was || leftByAttack(file, was, is, "marker") != c.want {
			t.Errorf("%s: from %q to %q, a finding: %v", what, was, is, !c.want)
		}
	}
	for value, want := range map[string]bool{`"pwn\n" <nil>`: true, `"another\n" <nil>`: false} {
		if leftByAttack("sysctl kernel/hostname", `"host\n" <nil>`, value, "marker") != want {
			t.Errorf("the name %s is a finding: %v", value, !want)
		}
	}
	if !leftByAttack(ourselves, "Uid 0", "Uid 1000", "marker") {
		t.Error("what befalls this process is none of its findings")
	}
}

func replaced(file, text string) error {
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}

type walls struct{ sandbox.Backend }

func (walls) Name() string { return "native" }

// TestHurried: a deadline that comes before the probe has begun shows nothing; a later one that does has found something.
func TestHurried(t *testing.T) {
	a := &Attack{timeout: time.Second, statuses: []sandbox.Status{sandbox.StatusTimeout}, want: []*regexp.Regexp{regexp.MustCompile("ready")}}
	for factor, want := range map[time.Duration]Outcome{1: Unclear, laterDeadline: NotContained} {
		tr := &trial{record: record{ctx: t.Context()}, Attack: a, arena: &Arena{spy: &spy{Backend: walls{}}}, deadline: factor * a.timeout}
		tr.part(func() { tr.judge(&sandbox.Result{Status: sandbox.StatusTimeout}) })
		if v := tr.close(); v.Outcome != want || tr.hurried != (want == Unclear) {
			t.Errorf("%v: %s, hurried %v, want %s", tr.deadline, v.Outcome, tr.hurried, want)
		}
	}
}
