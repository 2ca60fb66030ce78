package bash

import (
	"testing"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
)

// Output of Bash 5.2 for small scripts.
var errorTests = []struct{ stderr, wantName, want string }{
	{"m.sh: line 1: foo: command not found\n", "command not found", "foo"},
	{"m.sh: line 2: x: unbound variable\n", "unbound variable", "x"},
	{"m.sh: line 3: syntax error: unexpected end of file\n", "syntax error", "unexpected end of file"},
	{"m.sh: line 1: syntax error near unexpected token `fi'\nm.sh: line 1: `fi'\n", "syntax error",
		"near unexpected token `fi'"},
	{"m.sh: line 1: unexpected EOF while looking for matching `\"'\nm.sh: line 2: syntax error: unexpected end of " +
		"file\n",
		"syntax error", "unexpected EOF while looking for matching `\"'"},
	{"m.sh: line 1: x: need x\n", "error", "x: need x"},
	{"m.sh: line 1: 1/0: division by 0 (error token is \"0\")\n", "division by 0", "1/0"},
	{"m.sh: line 1: cd: /nope: No such file or directory\n", "No such file or directory", "cd: /nope"},
	{"m.sh: line 1: foo: command not found\nm.sh: line 2: bar: command not found\n", "command not found", "bar"},
	{"m.sh: line 1: foo: command not found\nls: cannot access 'x': No such file or directory\n", "", ""},
	{"m.sh: line 2: warning: here-document at line 1 delimited by end-of-file (wanted `E')\n", "", ""},
	{"", "", ""},
}

func TestParseError(t *testing.T) {
	for _, tt := range errorTests {
		got := ParseError([]byte(tt.stderr))
		switch {
		case tt.wantName == "" && got != nil:
			t.Errorf("%q: got %+v, want none", tt.stderr, *got)
		case tt.wantName != "" && got == nil:
			t.Errorf("%q: got none", tt.stderr)
		case got != nil && (got.Name != tt.wantName || got.Value != tt.want):
			t.Errorf("%q: got %q %q, want %q %q", tt.stderr, got.Name, got.Value, tt.wantName, tt.want)
		}
	}
}

func FuzzParseError(f *testing.F) {
	for _, tt := range errorTests {
		f.Add([]byte(tt.stderr))
	}
	f.Fuzz(func(t *testing.T, stderr []byte) {
		e := ParseError(stderr)
		if e == nil {
			return
		}
		if e.Name == "" || len(e.Name) > trace.MaxName || len(e.Value) > trace.MaxValue ||
			len(e.Traceback) > trace.MaxTraceback {
			t.Errorf("out of bounds: %d %d %d", len(e.Name), len(e.Value), len(e.Traceback))
		}
		if !utf8.ValidString(e.Name + e.Value + e.Traceback) {
			t.Error("not UTF-8")
		}
	})
}
