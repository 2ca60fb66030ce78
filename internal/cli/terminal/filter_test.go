package terminal

import (
	"bytes"
	"testing"
)

func TestFilter(t *testing.T) {
	for in, want := range map[string]string{
		"plain \x1b[31mred\x1b[0m é\u00a0 \x1b(B": "plain \x1b[31mred\x1b[0m é\u00a0 \x1b(B",
		"a\x1b]52;c;cm0gLXJm\x07b":                "ab",
		"a\x1b]0;title\x1b\\b\u009d0;t\u009cc":    "abc",
		"a\x1bP$qm\x1b\\b\x1b_x\x1b\\c\x1b^y\x07": "abc",
		"a\x1b]0;x\x1b[1mb":                       "a\x1b[1mb",
		"a\x1b]0;x\x1b]1;y\x07b":                  "ab",
		"a\x1b\x1b]0;x\x07b":                      "a\x1bb",
		"a\x1b]8;;http://x\x1b\\link\x1b]8;;\x07": "alink",
		"a\x1b]0;é\x18b":                          "ab",
		"a\xc2\x1b]52;c;x\x07b":                   "a\xc2b",
		"a\xc2\xc2\x9d52;c;x\x07b":                "a\xc2b",
		"a\x1b\x00]52;c;x\x07b":                   "a\x00b",
		"a\x1b\r\x7f]52;c;x\x07b":                 "a\r\x7fb",
		"a\x1b]0;x\xc2\x07b":                      "ab",
		"\u0090q\u009cb":                          "b",
	} {
		for size := range []int{1, 2, len(in)} {
			var out bytes.Buffer
			f := NewFilter(&out)
			for rest := []byte(in); len(rest) > 0; {
				n := min(len(rest), size+1)
				if m, err := f.Write(rest[:n]); m != n || err != nil {
					t.Fatal(m, err)
				}
				rest = rest[n:]
			}
			if out.String() != want {
				t.Errorf("%q in pieces of %d: got %q, want %q", in, size+1, &out, want)
			}
		}
	}
}
