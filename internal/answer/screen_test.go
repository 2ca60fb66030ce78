package answer

import (
	"fmt"
	"runtime"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestScreen: text is what a terminal shows at the end.
func TestScreen(t *testing.T) {
	var bar strings.Builder
	for i := range 3000 {
		fmt.Fprintf(&bar, "\r%3d%%|%-20s| %d/3000", i/30, strings.Repeat("#", i/150), i+1)
	}
	for in, want := range map[string]string{
		"plain\n\ttext\n":                          "plain\n\ttext\n",
		"windows\r\nlines\r\n":                     "windows\nlines\n",
		bar.String() + "\nend":                     " 99%|" + strings.Repeat("#", 19) + " | 3000/3000\nend",
		"longer text\rshort":                       "shortr text",
		"longer text\r\x1b[Kshort":                 "short",
		"longer text\rshort      \n":               "short\n",
		"ab\b\bX":                                  "Xb",
		"\x1b[1;31mred\x1b[0m\x1b]0;title\a!":      "red!",
		"\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\": "link",
		"one\ntwo\n\x1b[2A\x1b[2Kuno\n":            "uno\ntwo\n",
		"a\n\x1b[99999999A\x1b[99999999Cb":         "a" + strings.Repeat(" ", 511) + "b\n",
		"a\n\x1b[99999999Bb":                       "a\nb",
		"x\x1b[3":                                  "x3",
		"é\r\u4e2d":                                "\u4e2d",
		"bell\a null\x00 c1\u009b":                 "bell null c1",
		"a\n\n\r\n":                                "a\n\n\n",
		"one\ntwo\nthree\x1b[2;5H\x1b[H\x1b[2J":    "one\ntwo\nthree",
	} {
		if got := Screen(in); got != want {
			t.Errorf("%.60q: %q, want %q", in, got, want)
		}
	}
	rows := strings.Repeat("row\n", 200)
	if got := Screen(rows + "\x1b[500A\rnew"); strings.Count(got, "row") != 199 || !strings.HasPrefix(got, "row\n") {
		t.Errorf("%q", got)
	}
}

// FuzzScreen: the screen of any text is text without control characters, not much longer, and its own screen.
func FuzzScreen(f *testing.F) {
	f.Add("a\r\x1b[Kb\b\x1b[3Ac\n\x1b]x\a")
	f.Fuzz(func(t *testing.T, in string) {
		in = strings.ToValidUTF8(in, "?")
		out := Screen(in)
		if !utf8.ValidString(out) || strings.ContainsAny(out, "\r\b\x1b") || len(out) > 2*len(in)+freeWork {
			t.Fatalf("%q becomes %q", in, out)
		}
		if again := Screen(out); again != out {
			t.Fatalf("%q becomes %q, then %q", in, out, again)
		}
	})
}

// TestScreenOfLongLine: a long line stays one line, and takes little more memory than its text.
func TestScreenOfLongLine(t *testing.T) {
	line := strings.Repeat("0123456 ", 1<<20)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	got := Screen("gone\r" + line + "\nend")
	runtime.ReadMemStats(&after)
	if got != strings.TrimRight(line, " ")+"\nend" {
		t.Errorf("%d bytes became %d", len(line), len(got))
	}
	if took := after.TotalAlloc - before.TotalAlloc; took > 12*uint64(len(line)) {
		t.Errorf("it took %d bytes for %d", took, len(line))
	}
}
