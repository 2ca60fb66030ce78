//go:build unix

package python_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
)

// TestOnce runs programs that need the driver for a single run.
func TestOnce(t *testing.T) {
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("this machine lacks Python")
	}
	for name, c := range map[string]struct {
		code, module, stdin, stdout, stderr, files string
		exit                                       int
	}{
		"magics": {code: "%matplotlib inline\nx = 6\n!echo {x * 7}\nfiles = !ls\nprint(files)\n%time y = 1\n" +
			"import sys\nprint(sys.argv[1:], __name__, __file__ == sys.argv[0], sorted(globals())[-3:])",
			stdout: "42\n['main.py']\nCPU times: *Wall time: *['a', 'b'] __main__ True ['sys', 'x', 'y']\n"},
		"cell magic": {code: "%%bash\necho $((6*7))", stdout: "42\n"},
		"input":      {code: "%config x\nprint(input())", stdin: "line\n", stdout: "line\n"},
		"display": {code: "from IPython.display import display, HTML\ndisplay(7, [1])\ndisplay(HTML('<b>'))\n3",
			stdout: "7\n[1]\n", files: "result-1.html"},
		"traceback": {code: "def f():\n    return 1/0\n%time f()", stdout: "CPU*", exit: 1,
			stderr: "Traceback (most recent call last):\n  File \"main.py\", line 3, in <module>\n    %time f()\n" +
				"*  File \"main.py\", line 2, in f\n    return 1/0\n" +
				"           ~^~\nZeroDivisionError: division by zero\n"},
		"syntax": {code: "%config x\nprint(", exit: 1,
			stderr: "  File \"main.py\", line 2\n    print(\n         ^\nSyntaxError: '(' was never closed\n"},
		"unknown": {code: "%sql x", exit: 1, stderr: "*UsageError: Line magic function `%sql` not found.\n"},
		"exit":    {code: "%config x\nimport sys\nsys.exit(3)", exit: 3},
		"message": {code: "%config x\nexit('bye')", exit: 1, stderr: "bye\n"},
		"atexit":  {code: "%config x\nimport atexit\natexit.register(print, 'end')", stdout: "end\n"},
		"thread": {code: "%config x\nimport threading, time\n" +
			"threading.Thread(target=lambda: (time.sleep(0.01), print('late'))).start()", stdout: "late\n"},
		"windows": {code: "\ufeff%config x\r\nprint(1)\r\n", stdout: "1\n"},
		"latin":   {code: "# coding: latin-1\nimport webbrowser\nprint(len('\xe9'))", stdout: "1\n"},
		"figures": {module: "matplotlib", code: "import matplotlib.pyplot as " +
			"plt\nplt.plot([1])\nplt.show()\nplt.plot([2])\n" +
			"plt.gcf().show()\nplt.plot([3])\n", files: "result-1.png result-2.png"},
		"letters": {module: "matplotlib", code: "import matplotlib.pyplot as plt\nfrom matplotlib import " +
			"font_manager\n" +
			"fonts = font_manager.fontManager.ttflist\nfonts[:] = [f for f in fonts if 'mpl-data' in f.fname]\n" +
			"plt.title('\u4e2d\u6587')\nplt.show()", files: "result-1.png",
			stderr: "main.py:6: UserWarning: Glyph 20013 *missing from*\n  plt.show()\n"},
		"plotly": {module: "plotly", code: "import plotly.express as px\npx.line(y=[1]).show()",
			files: "result-1.html"},
		"PIL": {module: "PIL", code: "from PIL import Image\nImage.new('1', (1, 1)).show()",
			files: "result-1.png"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			argv := python.Language.Cell([]byte(c.code))
			if argv == nil {
				t.Fatal("the code runs without the driver")
			}
			dir := t.TempDir()
			if err := os.WriteFile(dir+"/main.py", []byte(c.code), 0o600); err != nil {
				t.Fatal(err)
			}
			command := func(argv []string) *exec.Cmd {
				cmd := exec.Command(argv[0], argv[1:]...)
				cmd.Dir, cmd.Stdin = dir, strings.NewReader(c.stdin)
				cmd.Env = append([]string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=" + t.TempDir()},
					chartSite...)
				return cmd
			}
			if c.module != "" && command([]string{interpreter, "-c", "import " + c.module}).Run() != nil {
				t.Skip("this machine lacks " + c.module)
			}
			var stdout, stderr strings.Builder
			cmd := command(append(argv(interpreter, dir+"/main.py"), "a", "b"))
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			err := cmd.Run()
			var exited *exec.ExitError
			if err != nil && !errors.As(err, &exited) {
				t.Fatal(err)
			}
			paths, _ := filepath.Glob(dir + "/result-*")
			for i, p := range paths {
				paths[i] = filepath.Base(p)
			}
			errs := strings.ReplaceAll(stderr.String(), dir+"/", "")
			if !matches(c.stdout, stdout.String()) || !matches(c.stderr, errs) ||
				cmd.ProcessState.ExitCode() != c.exit ||
				strings.Join(paths, " ") != c.files {
				t.Errorf("exit code %d, files %v\nstdout %s\nstderr %s", cmd.ProcessState.ExitCode(), paths, &stdout,
					errs)
			}
		})
	}
}

// matches reports whether a text has the parts of a pattern between its asterisks, in order.
func matches(pattern, text string) bool {
	parts := strings.Split(pattern, "*")
	text, found := strings.CutPrefix(text, parts[0])
	for _, part := range parts[1:] {
		at := strings.LastIndex(text, part)
		found, text = found && at >= 0, text[at+len(part):]
	}
	return found && text == ""
}

// TestCell: ordinary code does not need the driver.
func TestCell(t *testing.T) {
	for code, want := range map[string]bool{
		"print(6*7)": false, "x = 5 % 3\nif x != 2: pass": false, "'''%s''' % 1": false,
		"import numpy\nprint('what? no!')": false,
		"x = !ls":                          true, "pip install x": true, "a = ' pip install '": false, "%time x": true,
		"x?": true, "fig.show()": true,
	} {
		if got := python.Language.Cell([]byte(code)) != nil; got != want {
			t.Errorf("%q: %v", code, got)
		}
	}
}
