//go:build unix

package python_test

import (
	"regexp"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

// TestDriverNotebook runs cells of notebooks, as models write them.
func TestDriverNotebook(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	for _, c := range []struct {
		code, stdout string // stdout is an expression
		shown        string // as forms returns it
		failure      string
	}{
		{code: "%matplotlib inline\n%config InlineBackend.figure_format = 'retina'\n%load_ext autoreload\n" +
			"%autoreload 2\nprint(1)", stdout: "1\n"},
		{code: "%%time\nx = 5\nx + 1", stdout: `CPU times: user .*, sys: .*, total: .*\nWall time: .* [mµn]?s\n`,
			shown: "main text/plain 6\n"},
		{code: "%time y = x * 2\nprint(y)", stdout: `CPU times: .*\nWall time: .*\n10\n`},
		{code: "v = %timeit -n 2 -r 3 -o sum(range(10))\nlen(v.timings)",
			stdout: `.* ± .* per loop \(mean ± std. dev. of 3 runs, 2 loops each\)\n`, shown: "main text/plain 3\n"},
		{code: "%%timeit -n1 -r1 a = 3\na + x", stdout: `.* of 1 run, 1 loop each\)\n`},
		{code: "%%writefile m.py\n\ndef f():\n    return '{x}'\n", stdout: "Writing m.py\n"},
		{code: "%%writefile -a m.py\nz = 1\n", stdout: "Appending to m.py\n"},
		{code: "import m\nfiles = !ls\nprint(files, files.s, m.f(), m.z)", stdout: `\['.*m.py'\] .*m.py \{x\} 1` +
			"\n"},
		{code: "name = 'm.py'\n!echo {x + 1} {x:03d} $name $nowhere_ {name.upper()} '{\"a\": {\"b\": 1}}' {{x}}\n" +
			"!printf 'a b\\n' | awk '{print $2}'",
			stdout: `6 005 m.py M.PY \{"a": \{"b": 1\}\} \{x\}` + "\nb\n"},
		{code: "def lines(path):\n    found = !cat $path\n    return found\nlen(lines('m.py'))",
			shown: "main text/plain 4\n"},
		{code: "for i in range(2):\n    !echo {i}", stdout: "0\n1\n"},
		{code: "!!echo 1", shown: "main text/plain ['1']\n"},
		{code: "# a comment\n\n%%bash\nfor i in 1 2; do echo \"$i {x}\"; done", stdout: `1 \{x\}\n2 \{x\}\n`},
		{code: "%%bash\nexit 3", failure: "subprocess.CalledProcessError Command '['bash']' returned non-zero exit " +
			"status 3."},
		{code: "%%python3\nprint(6*7)", stdout: "42\n"},
		{code: "%env FLAVOUR=sour\n%env FLAVOUR", stdout: "env: FLAVOUR=sour\n",
			shown: "main text/plain 'sour'\n"},
		{code: "!echo $FLAVOUR", stdout: "sour\n"},
		{code: "x = 1\npip install --no-such-option 2>/dev/null || echo it ran\nx", stdout: "it ran\n",
			shown: "main text/plain 1\n"},
		{code: "%cd /\n%pwd", stdout: "/\n", shown: "main text/plain '/'\n"},
		{code: "%cd -\nimport os\nhere = %pwd\nhere == os.getcwd() != '/'", stdout: ".*\n",
			shown: "main text/plain True\n"},
		{code: "%%capture out\nprint('hidden'); display(1)\n2", stdout: ""},
		{code: "out.stdout, out.outputs", shown: "main text/plain ('hidden\\n', [1, 2])\n"},
		{code: "def g(a, b=2):\n    'It adds.'\n    return a + b"},
		{code: "g?", stdout: `Signature: +g\(a, b=2\)\nType: +function\nFile: +<cell 23>\nDocstring: +It adds.\n`},
		{code: "?str.upper", stdout: `(?s).*Docstring: +Return a copy of the string converted to uppercase.\n`},
		{code: "g??", stdout: `(?s).*    return a \+ b\n.*`},
		{code: "nowhere?", stdout: "Object `nowhere` not found.\n"},
		{code: "%run m.py\nz", shown: "main text/plain 1\n"},
		{code: "%who_ls", shown: "main application/json [\"d\"] text/plain ['d']\n"},
		{code: "%%html\n<b>", shown: "display text/html <b> text/plain <IPython.core.display.HTML object>\n"},
		{code: "from IPython.display import display, HTML, Markdown, Image, JSON, " +
			"clear_output\nclear_output(wait=True)\n" +
			"display(HTML('<i>'), Markdown('*a*'))\nJSON({'a': 1})",
			shown: "display text/html <i> text/plain <IPython.core.display.HTML object>\n" +
				"display text/markdown *a* text/plain <IPython.core.display.Markdown object>\n" +
				"main application/json {\"a\": 1} text/plain {'a': 1}\n"},
		{code: "import IPython\nfrom IPython import get_ipython as g2\nfrom IPython.core.display import SVG\n" +
			"display({'text/html': '<u>', 'text/plain': 'u'}, raw=True)\nSVG('<svg/>')",
			shown: "display text/html <u> text/plain u\n" +
				"main image/svg+xml <svg/> text/plain <IPython.core.display.SVG object>\n"},
		{code: "get_ipython().run_line_magic('matplotlib', 'inline')\nget_ipython().system('echo {d + 4}')\n" +
			"g2() is get_ipython()", stdout: "5\n", shown: "main text/plain True\n"},
		{code: "from IPython.core.magic import register_line_magic\n@register_line_magic\ndef twice(line):\n" +
			"    return line * 2"},
		{code: "%twice ab", shown: "main text/plain 'abab'\n"},
		{code: "import IPython.parallel", failure: "ModuleNotFoundError No module named 'IPython.parallel'"},
		{code: "print('before')\n%sql select 1\nprint('after')", stdout: "before\n",
			failure: "UsageError Line magic function `%sql` not found."},
		{code: "%%cython\nx = 1", failure: "UsageError Cell magic function `%%cython` not found."},
		{code: "x = 1\n%%time\ny = 2",
			failure: "UsageError %%time is a cell magic: it must begin the first line of the code"},
		{code: "%time 1/0", stdout: "(?s).*", failure: "ZeroDivisionError division by zero"},
		{code: "%matplotlib inline\nprint(", failure: "SyntaxError '(' was never closed"},
		{code: "x = 7 %\n", failure: "SyntaxError invalid syntax"},
		{code: "is it so?", failure: "SyntaxError invalid syntax"},
		{code: "print(%time)", failure: "SyntaxError invalid syntax"},
		{code: "s = '''\n%time\n!ls\n'''\n10 \\\n%3", shown: "main text/plain 1\n"},
	} {
		if strings.HasPrefix(c.code, "%who") {
			d.Run("%reset -f\nd = 1")
		}
		o := d.Run(c.code)
		failure := ""
		if o.Error != nil {
			failure = o.Error.Name + " " + o.Error.Value
		}
		if !regexp.MustCompile("^(?:"+c.stdout+")$").MatchString(o.Stdout) || forms(o) != c.shown ||
			!strings.HasPrefix(failure, c.failure) || c.failure == "" && o.Stderr != "" {
			t.Errorf("%s\nstdout %q\nshown %s\nfailure %q\nstderr %s", c.code, o.Stdout, forms(o), failure, o.Stderr)
		}
	}
}

// Tracebacks name the cell and show the line as it was written.
func TestDriverNotebookTraceback(t *testing.T) {
	d := langtest.StartDriver(t, python.Language, nil)
	o := d.Run("x = 1\nif x:\n    %nowhere -a  {x}\n")
	if o.Error == nil || o.Error.Traceback != "Traceback (most recent call last):\n  File \"<cell 1>\", line 3, in "+
		"<module>\n    %nowhere -a  {x}\nUsageError: Line magic function `%nowhere` not found." {
		t.Errorf("%+v", o.Error)
	}
	o = d.Run("%%time\n\n\n1/0")
	if !strings.Contains(o.Stderr, "File \"<cell 2>\", line 4, in <module>\n    1/0\n") {
		t.Errorf("%s", o.Stderr)
	}
}
