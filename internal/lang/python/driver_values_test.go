//go:build unix

package python_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

// forms describes what a run showed, a line for each value: "main" or "display", then the types; short texts follow
// theirs.
func forms(o langtest.Outcome) string {
	var b strings.Builder
	for _, shown := range o.Results {
		b.WriteString(map[bool]string{true: "main", false: "display"}[shown.Main])
		for _, form := range shown.Forms {
			b.WriteString(" " + form.Type)
			if len(form.Data) < 200 && !strings.HasPrefix(form.Type, "image/p") {
				b.WriteString(" " + string(form.Data))
			}
		}
		b.WriteString("\n")
	}
	return b.String()
}

func TestDriverValues(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	class := func(body string) string { return "class C:\n    " + strings.ReplaceAll(body, "\n", "\n    ") + "\nC()" }
	for name, c := range map[string]struct{ code, want string }{
		"plain JSON": {`{"a": [1, 2.5, None, True, "é"]}`,
			`main application/json {"a": [1, 2.5, null, true, "é"]} text/plain {'a': [1, 2.5, None, True, 'é']}`},
		"no JSON":   {`{1: 2}`, `main text/plain {1: 2}`},
		"no number": {`[float("nan")]`, `main text/plain [nan]`},
		"recursive": {"a = []; a.append(a); a", `main text/plain [[...]]`},
		"wide":      {"a = [0]; a *= 1 << 20; display(a)", `display text/plain`},
		"surrogate": {`["\ud800"]`, `main text/plain ['\ud800']`},
		"two":       {"display(1, 'b')", "display text/plain 1\ndisplay text/plain 'b'"},
		"html": {class("def _repr_html_(self): return '<b>'\ndef __repr__(self): return 'C'"),
			"main text/html <b> text/plain C"},
		"raises": {class("def __repr__(self): raise ValueError('no')"),
			"main text/plain <C: repr raised ValueError: no>"},
		"raises once": {class("def _repr_html_(self): return '<b>'\ndef __repr__(self): raise ValueError"),
			"main text/html <b>"},
		"exits": {class("def __repr__(self): raise SystemExit"), "main text/plain <C: repr raised SystemExit: >"},
		"lies": {class("def _repr_html_(self): return 7\ndef _repr_png_(self): return b'GIF'\ndef __repr__(self): " +
			"return 'C'"),
			"main text/plain C"},
		"no text": {class("def __repr__(self): return 7"),
			"main text/plain <C: repr raised TypeError: __repr__ returned non-string (type int)>"},
		"hangs": {class("def __repr__(self):\n    while True: pass"),
			"main text/plain <C: repr took longer than 2 s>"},
		"any name": {class("def __getattr__(self, name): return lambda *a, **k: 7\ndef __repr__(self): return 'C'"),
			"main text/plain C"},
		"bundle": {class("def _repr_mimebundle_(self, **k): return {'text/plain': 'C', 'image/png': " +
			"'iVBORw0KGgo=', 'x/y': 1}"),
			"main image/png text/plain C"},
		"too large": {class("def _repr_html_(self): return 'x' * (9 << 20)\ndef __repr__(self): return 'C'"),
			"main text/plain C\n[text/html was left out: it has 9437184 bytes]"},
		"thread": {"import threading\nt = threading.Thread(target=display, args=(7,)); t.start(); t.join()",
			"display text/plain 7"},
	} {
		t.Run(name, func(t *testing.T) {
			if o := d.Run(c.code); forms(o) != c.want+"\n" || o.Error != nil {
				t.Errorf("got %s want %s\nerror %v", forms(o), c.want, o.Error)
			}
		})
	}
	if text := forms(d.Run("'x' * 3_000_000")); text != "main text/plain\n" {
		t.Errorf("a long text: %s", text)
	}
	var want strings.Builder
	for i := range 100 {
		fmt.Fprintf(&want, "display text/plain %d\n", i)
	}
	want.WriteString("main text/plain 7\ndisplay text/plain [50 more results were not shown: a run shows 100]\n")
	if got := forms(d.Run("for i in range(150): display(i)\n7")); got != want.String() {
		t.Errorf("many values: %s", got)
	}
}

// TestDriverPackages needs pandas, matplotlib and pillow; FUMEHOOD_TEST_PYTHONPATH may name a folder with them.
func TestDriverPackages(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, []string{"PYTHONPATH=" + os.Getenv("FUMEHOOD_TEST_PYTHONPATH")})
	if o := d.Run("import pandas as pd\nimport matplotlib.pyplot as plt\nimport PIL.Image"); o.Error != nil {
		t.Skipf("this machine lacks a package: %s", o.Error.Value)
	}
	const chart = sandbox.MediaChart + " "
	figure := "image/png text/plain <Figure size 640x480 with 1 Axes>\n"
	for _, c := range []struct{ code, want string }{
		{"df = pd.DataFrame({'a': [1, 2]})\ndf",
			`main text/html application/json {"columns":["a"],"index":[0,1],"data":[[1],[2]]} text/plain    a` +
				"\n0  1\n1  2\n"},
		{"pd.DataFrame({'a': range(2000)})",
			`main text/html application/json ` +
				`{"columns":["a"],"index":[0,1,2,3,4,1995,1996,1997,1998,1999],"data":[[0],[1],` +
				`[2],[3],[4],[1995],[1996],[1997],[1998],[1999]],"shape":[2000,1]} text/plain`},
		{"pd.Series(range(100))", `main text/html application/json {"name":null,"index":[0,1,2,3,4,95,96,97,98,99],` +
			`"data":[0,1,2,3,4,95,96,97,98,99],"shape":[100]} text/plain`},
		{"with pd.option_context('display.max_rows', None): display(pd.DataFrame({'a': range(200)}))",
			"display text/html application/json text/plain"},
		{"pd.DataFrame([range(50)])", `main text/html application/json {"columns":[0,1,2,3,4,5,6,7,8,9,40,41,`},
		{"df.a",
			`main text/html application/json {"name":"a","index":[0,1],"data":[1,2]} text/plain 0    1` +
				"\n1    2\nName: a, dtype: int64\n"},
		{"plt.plot([1, 2])\nplt.show()\nplt.plot([2, 1]);", "display " + chart + figure + "display " + chart + figure},
		{"fig, ax = plt.subplots()\nfig", "main " + figure},
		{"fig, ax = plt.subplots()\nplt.show()\nfig", "display " + figure +
			"main text/plain <Figure size 640x480 with 1 Axes>\n"},
		{"fig, ax = plt.subplots()\nplt.pause(0.001)\nax.plot([1])\n1/0", "display " + chart + figure},
		{"plt.figure();", ""},
		{"plt.title('$\\\\bad$');", "display text/plain"},
		{"PIL.Image.new('1', (1, 1));", ""},
		{"display(PIL.Image.new('1', (1, 1)))", "display image/png text"},
	} {
		got := forms(d.Run(c.code))
		if !strings.HasPrefix(got, c.want) || c.want == "" && got != "" ||
			strings.Count(got, "png") != strings.Count(c.want, "png") {
			t.Errorf("%s\ngot %s want %s", c.code, got, c.want)
		}
	}
}
