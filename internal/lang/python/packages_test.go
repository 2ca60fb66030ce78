package python

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestMagic finds requirements only in lines outside of strings, and excludes options, their values and other commands.
func TestMagic(t *testing.T) {
	for code, want := range map[string]string{
		"pip install a b>=1\nimport a":                           "a b>=1",
		"if 1:\n    uv pip install -q a\n":                       "a",
		"x = 'pip install a'\nx.pip install a":                   "",
		"!pip install a {b} $c":                                  "a",
		"%pip install a 'b>=1' # c":                              "a b>=1",
		"x = 1\n  !pip3 install -q --upgrade a\n":                "a",
		"! python -m pip install a && echo b":                    "a",
		"!uv pip install a; ls":                                  "a",
		"!pip install a >/dev/null 2>&1":                         "a",
		"%pip install -r requirements.txt a --index-url x b":     "a b",
		"readme = '''\n%pip install a\n'''\n%pip install b":      "b",
		"r = r\"\"\"\\\"\"\"\n!pip install a\n\"\"\" # \"\"\"\n": "",
		"!echo don't \"\"\"\n%pip install a":                     "a",
		"it = \"'''\" # '''\n%pip install a":                     "a",
	} {
		if got := strings.Join(magic([]byte(code)).Requirements, " "); got != want {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
	}
}

// TestMagicCost: long hostile code costs time and memory in proportion to its length. A search for the begin of the
// line at each "pip install" would not get through this line in minutes.
func TestMagicCost(t *testing.T) {
	const size = 2 << 20
	for _, unit := range []string{"pip install ", "uv pip install a;", "(", "!a\n"} {
		code := []byte("pip" + strings.Repeat(unit, size/len(unit)))
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		found := magic(code)
		runtime.ReadMemStats(&after)
		if got := after.TotalAlloc - before.TotalAlloc; got > 8*size {
			t.Errorf("%q: %d bytes were allocated for %d of code", unit, got, size)
		}
		if len(found.Requirements) > maxInstalled {
			t.Errorf("%q: %d requirements", unit, len(found.Requirements))
		}
	}
}

// TestMagicFiles: lines name files of requirements, which list names with versions, and packages to upgrade.
func TestMagicFiles(t *testing.T) {
	got := magic([]byte("%pip install a -r one.txt --requirement two.txt -rthree.txt --requirement=four.txt " +
		"-c no.txt\n!pip install -U b c\n"))
	if files := strings.Join(got.Files, " "); files != "one.txt two.txt three.txt four.txt" {
		t.Errorf("%q", files)
	}
	if words := strings.Join(got.Requirements, " ") + "; " + strings.Join(got.Upgrades, " "); words != "a b c; b c" {
		t.Errorf("%q", words)
	}
	requirements, files, err := listed([]byte("\ufeffa==1 # one\r\n\n# note\n-r sub/b.txt\n-rc.txt\n" +
		"d[x]>=2,\\\n<3\ne; python_version < '4'"))
	if want := "a==1|d[x]>=2, <3|e; python_version < '4'"; err != nil || strings.Join(requirements, "|") != want ||
		strings.Join(files, "|") != "sub/b.txt|c.txt" {
		t.Errorf("%q %q %v", requirements, files, err)
	}
	for _, line := range []string{"-e .", "--index-url https://x", "git+https://x/y", "./a.whl", "a @ https://x/a.whl",
		"-c c.txt", "a==1 --hash=sha256:ab"} {
		if _, _, err := listed([]byte("b\n" + line)); err == nil {
			t.Errorf("%q is accepted", line)
		}
	}
}

// TestPlainly: lines that do no more than install do nothing in a program that an interpreter runs; all else stays,
// each line in its place.
func TestPlainly(t *testing.T) {
	for code, want := range map[string]string{
		"import os\n%pip install a 'b>=1' # c\nx\n":             "import os\npass\nx\n",
		"if 1:\n\t!pip3 install -q -U a 2>/dev/null\r\n\tx\r\n": "if 1:\n\tpass\r\n\tx\r\n",
		"!pip install -r requirements.txt":                      "pass",
		"!pip install a && rm b":                                "!pip install a && rm b",
		"!pip install a; rm b":                                  "!pip install a; rm b",
		"!pip install $(b)":                                     "!pip install $(b)",
		"%pip install --target x a":                             "%pip install --target x a",
		"x = '''\n%pip install a\n'''\n%pip install b":          "x = '''\n%pip install a\n'''\npass",
		"%matplotlib inline\n!ls\npip":                          "%matplotlib inline\n!ls\npip",
	} {
		if got := string(plainly([]byte(code))); got != want {
			t.Errorf("%q: %q, want %q", code, got, want)
		}
	}
}

// TestMostMagic: the list of requirements is at most one longer than the limit.
func TestMostMagic(t *testing.T) {
	code := strings.Repeat("%pip install "+strings.Repeat("a ", 9000)+"\n", 3)
	if n := len(magic([]byte(code)).Requirements); n != maxInstalled {
		t.Errorf("%d requirements", n)
	}
}

// TestSurvey: a survey finds missing imports, with their line, and whether they are optional.
func TestSurvey(t *testing.T) {
	for _, c := range [][2]string{
		{"import os, json\nimport glva.b as c, glvb\n", "glva.b:2 glvb:2"},
		{"try:\n    import glva\nexcept (ValueError, ImportError):\n    import glvb\nelse:\n    import glvc\n",
			"glva:2? glvb:4? glvc:6"},
		{"try: import glva\nexcept ValueError: pass\nfinally:\n    def f():\n        with x:\n            from glvb " +
			"import c, d\n", "glva:1 glvb.c:6 glvb.d:6"},
		{"import typing as t\nif t.TYPE_CHECKING and True:\n    import glva\nelse:\n    import glvb\nif x:\n    " +
			"import glvc\n", "glva:3? glvb:5 glvc:7"},
		{"from . import a\nfrom .b import c\nx = '''\nimport glva'''\n# import glvb\n", ""},
		{"import importlib\nimportlib.import_module('glva.b')\n__import__( \"glvb\")\n", "glva.b:2 glvb:3"},
		{"match x:\n    case 1:\n        import glva\n", "glva:3"},
		{"s = \"\\u2028\u2028\x7f\\\"\t\\n</script>\" # \U0001f600\nimport glv\u00e4\n", "glv\u00e4:2"},
		{"# /// script\n# dependencies = [\n#   \"glva>=1\",\n#   'glv\\\"b',\n# ]\n# ///\nimport glvc\n",
			"glvc:7 +glva>=1 +glv\\\"b"},
		{"import glva\nimport glva\ntry: import glva\nexcept: pass\nimport xml.nothing, os.path\n", "glva:1"},
		{"%pip install glva\nimport glvb\n", "glvb:2 +glva"},
		{"import glva\ntry:\n\timport glvb\nexcept ImportError:\n\tglvb = None\nfrom glvc import ( # x\n\td,\n\te " +
			"as f,\n)\n", "glva:1 glvb:3? glvc.d:6 glvc.e:6"},
		{"try:\n\timport glva, glvb\n\tX = True\nexcept ModuleNotFoundError as e:\n\tpass\n\nimport glvb\n",
			"glva:2? glvb:2"},
		{"def f():\n    \"\"\"'\"\nimport glva\n\"\"\"\ntry:\n    import glvb\nfinally:\n    x = [\n1,\n]\n@d(\n)\n" +
			"class A:\n    def g():\n        import glvc\n", "glvb:6 glvc:15"},
		{"x = 'y\\\nimport glva'\ndef f():\n    try:\n        import glvb\n    except: pass\n", "glvb:5?"},
		{"import glva; import glvb\nif 1: import glvc\nfrom glva import *\n", "glva:1 glvb:1 glvc:2 glva.*:3"},
		{"from glva import (\n  b, # import c\n  d as e,\n)\n\"\"\"\nimport glvb\n\"\"\"\n", "glva.b:1 glva.d:1"},
		{"import glva (", ""},
	} {
		code, want := c[0], c[1]
		s, ok := surveyOf(t, code)
		if !ok {
			return
		}
		var got []string
		for _, f := range s.Found {
			got = append(got, f.Name+":"+strconv.Itoa(f.Line)+map[bool]string{true: "?"}[f.Optional])
		}
		for _, r := range s.Requirements {
			got = append(got, "+"+r)
		}
		if strings.Join(got, " ") != want {
			t.Errorf("%q: %q, want %q", code, strings.Join(got, " "), want)
		}
	}
}

func surveyOf(t *testing.T, code string) (s sandbox.PackageSurvey, ok bool) {
	program, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Log("SKIPPED, NOT TESTED: the survey:", err)
		return s, false
	}
	q, err := json.Marshal(sandbox.PackageQuestion{Auto: true, Code: string(plainly([]byte(code))),
		Imports: []sandbox.Import{}, Requirements: append([]string{}, magic([]byte(code)).Requirements...)})
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(program, installer.Survey(program)[1:]...)
	cmd.Stdin = strings.NewReader(string(q))
	out, err := cmd.Output()
	if err != nil || json.Unmarshal(out, &s) != nil {
		t.Fatalf("%q: %v", out, err)
	}
	if stated := imports([]byte(code)); stated != nil {
		short, err := json.Marshal(sandbox.PackageQuestion{Auto: true, Code: code, Imports: stated,
			Requirements: []string{}})
		if err != nil {
			t.Fatal(err)
		}
		glanced := exec.Command(program, cmd.Args[1:]...)
		glanced.Stdin = bytes.NewReader(short)
		if again, err := glanced.CombinedOutput(); err != nil || string(again) != string(out) {
			t.Errorf("%q by its plain statements %v: %q, %v; want %q", code, stated, again, err, out)
		}
	}
	asProgram := exec.Command(program, "-")
	asProgram.Stdin = strings.NewReader(string(installer.SurveyCode(q)))
	if again, err := asProgram.CombinedOutput(); err != nil || string(again) != string(out) {
		t.Errorf("as a program: %q, %v; want %q", again, err, out)
	}
	return s, true
}

// TestOnlyTheIndex: a requirement is one of the index, never an option, a path or an address.
func TestOnlyTheIndex(t *testing.T) {
	for _, text := range []string{"", "-r /etc/passwd", "-rx", "--index-url=http://else.test/",
		"requests\n--index-url=http://else.test", "./a", "a/b", "/a", ".", "file:///etc", "http://else.test/a.whl",
		"git+https://else.test/a", "a @ https://else.test/a.whl", "a@https://else.test", "a[b]@file:///c", "a.whl/",
		"a;b/c", "a; import os", "a; python_version", "a; extra == 'x' y", "a;", "a==1 --hash=x", "a b", "\u0430"} {
		if validRequirement(text) {
			t.Errorf("%q is a requirement", text)
		}
	}
}

// TestOneLine: a requirement or a line of a lock has no second line, where an installer would find an option.
func TestOneLine(t *testing.T) {
	for _, space := range []string{"\n", "\r", "\f", "\v", "\x1c", "\u0085", "\u2028"} {
		for _, text := range []string{"a" + space + ">=1", "a ; x" + space + "--no-binary a", "a[b," + space + "c]",
			"a>=1" + space} {
			if validRequirement(text) {
				t.Errorf("%q is a requirement", text)
			}
		}
		if lock := "a==1 ; x" + space + "--no-binary a"; validLock(lock) {
			t.Errorf("%q is a lock", lock)
		}
	}
	for _, text := range []string{"a", "a [b,c] >=1, <2", "a\t==1.*", `a ; python_version < "3.9"`,
		"a;(os_name=='nt' or 'linux' in sys_platform)and platform_machine not in 'x86_64 arm64'"} {
		if !validRequirement(text) {
			t.Errorf("%q is none", text)
		}
	}
	if !validLock("a==1 ; python_version < '3'    --hash=sha256:00    --hash=sha256:11\nb[c,d]==1.0+cu1\n\n") {
		t.Error("a lock of uv is none")
	}
}

// TestSurveyOfUV: a root with uv and without pip has an installer and an index.
func TestSurveyOfUV(t *testing.T) {
	program, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skip("SKIPPED, NOT TESTED:", err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, "uv"), []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	for path, want := range map[string]string{dir: "uv https://pypi.org/simple [pypi.org files.pythonhosted.org]",
		"/none": "  []"} {
		cmd := exec.Command(program, slices.Concat([]string{"-S"},
			installer.Survey(program)[1:])...) // without the packages of the system
		cmd.Stdin, cmd.Env = strings.NewReader(`{"auto": false, "name": "", "code": "", "imports": [], `+
			`"requirements": ["a"]}`), []string{"PATH=" + path}
		out, err := cmd.Output()
		var s sandbox.PackageSurvey
		if err != nil || json.Unmarshal(out, &s) != nil {
			t.Fatalf("%q: %v", out, err)
		}
		if got := fmt.Sprintf("%s %s %s", s.Installer, s.Index, s.Hosts); got != want {
			t.Errorf("%s: %s", path, got)
		}
	}
}

// TestInstallerKilled: an installation by a program that ends without a message has failed.
func TestInstallerKilled(t *testing.T) {
	python, err := exec.LookPath("/usr/bin/python3") // of the root; a shim needs a PATH
	if err != nil {
		t.Skip("there is no /usr/bin/python3")
	}
	dir := t.TempDir()
	pip := filepath.Join(dir, "pip")
	if err := errors.Join(os.Mkdir(pip, 0o700), os.WriteFile(filepath.Join(pip, "__init__.py"),
		[]byte("import os; os.kill(os.getpid(), 9)"), 0o600)); err != nil {
		t.Fatal(err)
	}
	installer := exec.Command(python, "-c", install)
	installer.Env = []string{"PATH=" + dir, "PYTHONPATH=" + dir}
	installer.Stdin = strings.NewReader(`{"index": "https://index.test/", "requirements": ["a"], "found": [],
		"lock": "", "present": [], "allow_build": false, "dir": "` + filepath.Join(dir, "layer") + `"}`)
	if out, err := installer.Output(); err != nil || !strings.Contains(string(out), `"error": "the installer ended`) {
		t.Errorf("%s, %v", out, err)
	}
}

// TestPageEndsEarly: an installation fails if the connection of a page of the index ends before the page does.
func TestPageEndsEarly(t *testing.T) {
	python := "/usr/bin/python3"
	if exec.Command(python, "-m", "pip", "--version").Run() != nil {
		t.Skip("SKIPPED, NOT TESTED: there is no pip")
	}
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte("<!DOCTYPE html><html><body>"))
	}))
	defer index.Close()
	installer := exec.Command(python, "-c", install)
	installer.Env = []string{"PATH=/usr/bin:/bin", "PYTHONPATH="}
	installer.Stdin = strings.NewReader(`{"index": "` + index.URL + `/", "requirements": [], "found": ["a"], "lock": "",
		"present": [], "allow_build": false, "dir": "` + filepath.Join(t.TempDir(), "layer") + `"}`)
	if out, err := installer.Output(); err != nil || !strings.Contains(string(out), `"down": true`) {
		t.Errorf("%s, %v", out, err)
	}
}

// TestArchiveEndsEarly: if pip resumes the download of an archive, only pages of the index must be whole.
func TestArchiveEndsEarly(t *testing.T) {
	python, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skip("there is no /usr/bin/python3")
	}
	dir := t.TempDir()
	for name, text := range map[string]string{
		"_vendor/urllib3/response.py":       "class HTTPResponse:\n def __init__(s, **named): s.named = named",
		"_vendor/urllib3/connectionpool.py": "class HTTPConnectionPool: pass",
		"_vendor/urllib3/__init__.py":       "from . import connectionpool, response",
		"__init__.py":                       "",
		"_internal/cli/cmdoptions.py":       "resume_retries = 5",
		"_internal/cli/main.py": `from pip._vendor import urllib3
def main():
    make = urllib3.connectionpool.HTTPConnectionPool.ResponseCls
    kinds = "text/html; charset=utf-8", "application/vnd.pypi.simple.v1+json", "application/zip"
    whole = [k for k in kinds if make(headers={"content-type": k}).named.get("enforce_content_length")]
    make(headers={})
    return print("ERROR: whole are", *whole) or 1`,
	} {
		file := filepath.Join(dir, "pip", name)
		err := errors.Join(os.MkdirAll(filepath.Dir(file), 0o700), os.WriteFile(file, []byte(text), 0o600))
		if err != nil {
			t.Fatal(err)
		}
	}
	installer := exec.Command(python, "-c", install)
	installer.Env = []string{"PATH=" + dir, "PYTHONPATH=" + dir}
	installer.Stdin = strings.NewReader(`{"index": "https://index.test/", "requirements": ["a"], "found": [],
		"lock": "", "present": [], "allow_build": false, "dir": "` + filepath.Join(dir, "layer") + `"}`)
	const want = `"whole are text/html; charset=utf-8 application/vnd.pypi.simple.v1+json"`
	if out, err := installer.Output(); err != nil || !strings.Contains(string(out), want) {
		t.Errorf("%s, %v", out, err)
	}
}
