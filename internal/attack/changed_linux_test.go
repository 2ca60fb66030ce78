package attack

import (
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestCauseOf: the host's own changes are not findings, those of attacks are, and unexplained ones are reported.
func TestCauseOf(t *testing.T) {
	file := filepath.Join(t.TempDir(), "passwd")
	for what, c := range map[string]struct {
		change func() error
		want   cause
	}{
		"a line more":    {func() error { return os.WriteFile(file, []byte("root\nnew\n"), 0o644) }, byOthers},
		"another one":    {func() error { return replaced(file, "root\n_apt\n") }, byOthers},
		"what they send": {func() error { return os.WriteFile(file, []byte("evil of marker"), 0o644) }, byAttack},
		"nothing":        {func() error { return os.Truncate(file, 0) }, byAttack},
		"another mode":   {func() error { return os.Chmod(file, 0o777) }, byAttack},
		"it is gone":     {func() error { return os.Remove(file) }, byAttack},
	} {
		if err := replaced(file, "root\n"); err != nil {
			t.Fatal(err)
		}
		was := sumOf(file)
		if err := c.change(); err != nil {
			t.Fatal(err)
		}
		if is := sumOf(file); is == was || causeOf(file, was, is, "marker") != c.want {
			t.Errorf("%s: from %q to %q: cause %d, want %d", what, was, is, causeOf(file, was, is, "marker"), c.want)
		}
	}
	for text, want := range map[string]cause{"evil of marker": byAttack, "root\n": unexplained} {
		if err := replaced(file, text); err != nil {
			t.Fatal(err)
		}
		if by := causeOf(file, unreadable, sumOf(file), "marker"); by != want {
			t.Errorf("a new file with %q: cause %d, want %d", text, by, want)
		}
	}
	for value, want := range map[string]cause{`"pwn\n" <nil>`: byAttack, `"another\n" <nil>`: unexplained} {
		if by := causeOf(setting+"kernel/hostname", `"host\n" <nil>`, value, "marker"); by != want {
			t.Errorf("the name %s: cause %d, want %d", value, by, want)
		}
	}
	if causeOf(ourselves, "Uid 0", "Uid 1000", "marker") != byAttack {
		t.Error("what befalls this process is none of its findings")
	}
}

// TestSwapAreas: usage of a swap area is not a change.
func TestSwapAreas(t *testing.T) {
	const head = "Filename\tType\tSize\tUsed\tPriority\n"
	was := swapAreas(head + "/swap file 1000 20 -2\n")
	if is := swapAreas(head + "/swap file 1000 999 -2\n"); is != was {
		t.Errorf("%q is not %q", is, was)
	}
	for _, other := range []string{"", "/swap file 1000 20 5\n", "/swap file 1000 20 -2\n/tmp/x file 8 0 -3\n"} {
		if swapAreas(head+other) == was {
			t.Errorf("%q is like %q", other, was)
		}
	}
}

// TestHostUsers finds the code's possible host ids in maps of single ids and ranges.
func TestHostUsers(t *testing.T) {
	for uidMap, want := range map[string][]string{
		"0 700000 1\n1000 700001 1\n":    {"700000", "700001"}, // native and gvisor
		"0 0 4294967295\n":               {"1000"},             // docker
		"0 1001 1\n1 100000 65536\n":     {"100999"},           // podman of the user 1001
		"1000 1001 1\n":                  {"1001"},             // the user's own
		"0 100000 1000\n2000 200000 9\n": nil,
		"":                               nil,
	} {
		if got := hostUsers(uidMap, 1000, 1001); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", uidMap, got, want)
		}
	}
}

// TestIsNamed finds a short name exactly.
func TestIsNamed(t *testing.T) {
	for out, want := range map[string]bool{"x\nnode vm\n": true, "/proc/sys/kernel/hostname vm\n\n": true, "node sandbox\n": false,
		"node vm2\n": false, "/proc/mounts vm\n": false, "vm\n": false} {
		if isNamed(out, "vm") != want {
			t.Errorf("%q has the name: %v", out, !want)
		}
	}
}

// TestRemarks: remarks are among the notes, and no doubt hides another.
func TestRemarks(t *testing.T) {
	r := record{ctx: t.Context()}
	r.note("figures")
	r.remark("gone after %d s", 31)
	r.doubt("one")
	r.doubt("two")
	if v := r.close(); v.Outcome != Unclear || v.Why != "one\ntwo" || !slices.Equal(v.Meanwhile, []string{"gone after 31 s"}) || len(v.Notes) != 2 {
		t.Errorf("%+v", v)
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

// TestHurried: a deadline before the probe begins shows nothing; a later one does.
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
