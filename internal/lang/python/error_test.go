package python

import (
	"strings"
	"testing"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
)

// Output of CPython 3.11 for each program, shortened.
var errorTests = []struct {
	name, stderr       string
	wantName, want     string
	tracebackStartWith string
}{
	{
		name: "plain",
		stderr: "noise\nTraceback (most recent call last):\n  File \"/workspace/main.py\", line 1, in <module>\n " +
			"   int('x')\nValueError: invalid literal\n",
		wantName: "ValueError", want: "invalid literal", tracebackStartWith: "Traceback",
	},
	{
		name: "no value",
		stderr: "Traceback (most recent call last):\n  File \"m.py\", line 1, in <module>\n    raise " +
			"KeyboardInterrupt\nKeyboardInterrupt\n",
		wantName: "KeyboardInterrupt",
	},
	{
		name: "value of several lines",
		stderr: "Traceback (most recent call last):\n  File \"m.py\", line 1, in <module>\n    raise E\nm.E: one\n" +
			"  two\n\nthree\n",
		wantName: "m.E", want: "one\n  two\n\nthree",
	},
	{
		name: "chain",
		stderr: "Traceback (most recent call last):\n  File \"m.py\", line 2, in <module>\n    {}[1]\nKeyError: 1\n\n" +
			"During handling of the above exception, another exception occurred:\n\n" +
			"Traceback (most recent call last):\n  File \"m.py\", line 4, in <module>\n    raise " +
			"RuntimeError('outer')\nRuntimeError: outer\n",
		wantName: "RuntimeError", want: "outer",
		tracebackStartWith: "Traceback (most recent call last):\n  File \"m.py\", line 2",
	},
	{
		name: "logged before, not a chain",
		stderr: "Traceback (most recent call last):\n  File \"m.py\", line 2, in <module>\n    {}[1]\nKeyError: 1\n" +
			"retrying\n" +
			"Traceback (most recent call last):\n  File \"m.py\", line 4, in <module>\n    f()\nOSError: [Errno 5] " +
			"bad\n",
		wantName: "OSError", want: "[Errno 5] bad",
		tracebackStartWith: "Traceback (most recent call last):\n  File \"m.py\", line 4",
	},
	{
		name: "local class",
		stderr: "Traceback (most recent call last):\n  File \"m.py\", line 1, in <module>\n    f()\n" +
			"f.<locals>.Bad: why\n",
		wantName: "f.<locals>.Bad", want: "why",
	},
	{
		name: "syntax error",
		stderr: "  File \"/workspace/main.py\", line 1\n    print(\"a\n          ^\nSyntaxError: unterminated " +
			"string literal (detected at line 1)\n",
		wantName: "SyntaxError", want: "unterminated string literal (detected at line 1)",
		tracebackStartWith: "  File \"/workspace/main.py\", line 1\n",
	},
	{
		name:     "syntax error without source",
		stderr:   "SyntaxError: source code cannot contain null bytes\n",
		wantName: "SyntaxError", want: "source code cannot contain null bytes",
	},
	{
		name:     "indentation",
		stderr:   "  File \"/workspace/main.py\", line 2\n    x = 1\nIndentationError: unexpected indent\n",
		wantName: "IndentationError", want: "unexpected indent",
	},
	{
		name: "syntax error in an imported module",
		stderr: "Traceback (most recent call last):\n  File \"/workspace/main.py\", line 1, in <module>\n    " +
			"import bad\n" +
			"  File \"/workspace/bad.py\", line 1\n    def (\n        ^\nSyntaxError: invalid syntax\n",
		wantName: "SyntaxError", want: "invalid syntax", tracebackStartWith: "Traceback",
	},
	{
		name: "group",
		stderr: "  + Exception Group Traceback (most recent call last):\n  |   File \"m.py\", line 1, in <module>\n" +
			"  |     raise ExceptionGroup('eg', [ValueError(1)])\n" +
			"  | ExceptionGroup: eg (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | ValueError: " +
			"1\n    +------------------------------------\n",
		wantName: "ExceptionGroup", want: "eg (1 sub-exception)", tracebackStartWith: "  + Exception Group",
	},
	{
		name: "group with tracebacks within",
		stderr: "  + Exception Group Traceback (most recent call last):\n  |   File \"m.py\", line 9, in <module>\n" +
			"  |     raise g\n" +
			"  | ExceptionGroup: eg (1 sub-exception)\n  +-+---------------- 1 ----------------\n    | Traceback " +
			"(most recent call last):\n    |   File \"m.py\", line 3, in <module>\n    |     f()\n    | " +
			"ValueError: 1\n    +------------------------------------\n",
		wantName: "ExceptionGroup", want: "eg (1 sub-exception)",
	},
	{
		name: "recursion",
		stderr: "Traceback (most recent call last):\n  File \"m.py\", line 1, in f\n    f()\n  [Previous line " +
			"repeated 996 more times]\nRecursionError: maximum recursion depth exceeded\n",
		wantName: "RecursionError", want: "maximum recursion depth exceeded",
	},
	{
		name: "shutdown noise",
		stderr: "Traceback (most recent call last):\n  File \"m.py\", line 1, in f\n    f()\nBrokenPipeError: " +
			"gone\nException ignored in: <_io.TextIOWrapper>\nBrokenPipeError: again\n",
		wantName: "BrokenPipeError", want: "gone",
	},
	{name: "exit with a message", stderr: "input file is missing\n"},
	{name: "nothing"},
	{name: "header alone", stderr: "Traceback (most recent call last):\n"},
	{name: "not an exception line",
		stderr: "Traceback (most recent call last):\n  File \"m.py\", line 1\n!!! broken\n"},
	{name: "no file", stderr: "python3: can't open file '/workspace/x.py': [Errno 2] No such file or directory\n"},
}

func TestParseError(t *testing.T) {
	for _, tt := range errorTests {
		t.Run(tt.name, func(t *testing.T) {
			got := ParseError([]byte(tt.stderr))
			if tt.wantName == "" {
				if got != nil {
					t.Fatalf("got %+v, want none", *got)
				}
				return
			}
			if got == nil {
				t.Fatal("got none")
			}
			if got.Name != tt.wantName || got.Value != tt.want {
				t.Errorf("got %q %q, want %q %q", got.Name, got.Value, tt.wantName, tt.want)
			}
			if !strings.HasPrefix(got.Traceback, tt.tracebackStartWith) {
				t.Errorf("traceback starts with %q", got.Traceback)
			}
		})
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
