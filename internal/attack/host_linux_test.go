package attack

import (
	"os"
	"path/filepath"
	"testing"
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

func replaced(file, text string) error {
	if err := os.WriteFile(file+".new", []byte(text), 0o644); err != nil {
		return err
	}
	return os.Rename(file+".new", file)
}
