package packages

import (
	"bytes"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/javascript"
	"github.com/fumehood-dev/fumehood/internal/lang/python"
	"github.com/fumehood-dev/fumehood/internal/libexec"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// finding is code with files, and the order for it: "requirements | packages of imports | dropped imports".
type finding struct {
	about string
	name  string // of the code's file, unless it is main
	code  string
	files map[string]string // of the workspace; below site/, of the root
	want  string
}

// find has a survey program look at a case, without a sandbox, and returns the order. Its folders are those of the
// case.
func find(t *testing.T, in *sandbox.Installer, c *finding, command []string, folders ...string) string {
	t.Helper()
	workspace, root := t.TempDir(), t.TempDir()
	for name, text := range c.files {
		file := filepath.Join(workspace, name)
		if below, ok := strings.CutPrefix(name, "site/"); ok {
			file = filepath.Join(root, below)
		}
		err := os.MkdirAll(filepath.Dir(file), 0o755)
		if err == nil {
			err = os.WriteFile(file, []byte(text), 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	q, err := json.Marshal(sandbox.PackageQuestion{Auto: true, Name: c.name, Code: c.code, Imports: []sandbox.Import{},
		Requirements: []string{}})
	if err != nil {
		t.Fatal(err)
	}
	last := len(command) - 1
	program := strings.NewReplacer(append(folders, "/workspace", workspace, "ROOT", root)...).Replace(command[last])
	cmd := exec.Command(command[0], append(slices.Clone(command[1:last]), program)...)
	cmd.Stdin, cmd.Env = bytes.NewReader(q), []string{}
	out, err := cmd.Output()
	var s sandbox.PackageSurvey
	if err != nil || json.Unmarshal(out, &s) != nil {
		said := ""
		if failed, ok := err.(*exec.ExitError); ok {
			said = string(failed.Stderr)
		}
		t.Fatalf("%v: %s%s", err, out, said)
	}
	j := &job{need: &sandbox.PackageNeed{Language: sandbox.Language{Installer: in}}}
	o, dropped, _ := j.order(&s)
	return strings.Join(o.Requirements, " ") + " | " + strings.Join(o.Found, " ") + " | " + strings.Join(dropped, " ")
}

// TestFindingPython: the order for the findings of a survey in code and files. Its interpreter has the standard library
// and the files of the case.
func TestFindingPython(t *testing.T) {
	program, err := exec.LookPath("/usr/bin/python3")
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	in := python.Language.Installer
	survey := in.Survey(program)
	command := []string{program, "-I", "-S", "-c", "import sys; sys.path.append('ROOT')\n" + survey[len(survey)-1]}
	for _, c := range []finding{
		{about: "names that differ",
			code: "import cv2, yaml as y\nfrom PIL import Image\nfrom sklearn.svm import SVC\nimport bs4, numpy.linalg",
			want: " | beautifulsoup4 numpy opencv-python-headless pillow pyyaml scikit-learn | "},
		{about: "longer names", code: "import google.cloud.storage\nfrom google.cloud import bigquery\nfrom " +
			"ruamel.yaml import YAML", want: " | google-cloud-bigquery google-cloud-storage ruamel.yaml | "},
		{about: "the standard library",
			code: "import os.path, json, tomllib, xml.etree.ElementTree\nfrom __main__ import x", want: " |  | "},
		{about: "inside of statements",
			code: "def f():\n  if 1:\n    import a\n  else:\n    import b\nclass C:\n  with x: import c\nmatch x:\n" +
				"  case 1: import d\nimport_module('e.f'); __import__(\"g\")", want: " | a b c d e g | "},
		{about: "what can be no package", code: "import _private", want: " |  | _private"},
		{about: "no Python", code: "import (", want: " |  | "},

		{about: "optional", code: "try:\n  import a\nexcept ImportError:\n  import b\ntry: import c\nexcept: pass\n" +
			"try: import d\nexcept (KeyError, builtins.ModuleNotFoundError): pass\n" +
			"if typing.TYPE_CHECKING: import e\nif 1:\n  try: import f\n  except Exception: pass", want: " |  | "},
		{about: "not optional", code: "try: import a\nexcept OSError: pass\ntry: pass\nexcept ImportError: pass\n" +
			"else: import b\ntry: import c\nfinally: import d\nif TYPE_CHECKING: pass\nelse: import e",
			want: " | a b c d e | "},
		{about: "not optional, as the handler ends the program",
			code: "try: import a\nexcept ImportError:\n  print('pip install a')\n  sys.exit(1)\ntry: import b\n" +
				"except ImportError: exit()\n" +
				"try: from c import x\nexcept Exception as e: raise SystemExit(f'{e}') from e\ntry: import d\n" +
				"except: " +
				"os._exit(1)\ntry: import e\nexcept ImportError:\n  quit(1)", want: " | a b c d e | "},
		{about: "not optional, as the handler installs it",
			code: "try: import a\nexcept ImportError:\n  subprocess.check_call([sys.executable, '-m', 'pip', " +
				"'install', 'a'])\n  import a\n" +
				"try: import b, c\nexcept ImportError:\n  os.system('pip install b c')", want: " | a b c | "},
		{about: "not optional, as the handler imports it again",
			code: "try: from yaml import CLoader, x\nexcept ImportError:\n  if 1: from yaml import Loader\n" +
				"try: import a.b as b, c\nexcept ImportError: import a", want: " | a pyyaml | "},
		{about: "optional, as the handler goes on",
			code: "try: import a\nexcept ImportError:\n  print('pip install a for progress')\n  a = None\ntry: " +
				"import b\nexcept ImportError:\n  if strict: raise\n" +
				"try: import c\nexcept ImportError: pass\nexcept Exception: sys.exit(1)\ntry:\n  try: import d\n  " +
				"except ImportError: sys.exit(1)\nexcept: pass\n" +
				"try: import e\nexcept ImportError: from .e import x", want: " |  | "},
		{about: "once optional, once not", code: "import a\ntry: import a, b\nexcept ImportError: pass\nimport b",
			want: " | a b | "},

		{about: "local modules", code: "import mine, pack.sub, helper\nfrom . import y", want: " | far near | ",
			files: map[string]string{"mine.py": "import near, helper", "pack/__init__.py": "",
				"pack/sub.py": "from pack import x\nimport far", "helper.py": "import mine"}},
		{about: "local modules of a program in a folder", name: "app/main.py", want: " | far near | ",
			files: map[string]string{"app/main.py": "import beside, above", "app/beside.py": "import near",
				"above.py": "import far"}},
		{about: "what the root has", code: "import here, space.one\nfrom space import two; from here import x",
			want: " | space | ", files: map[string]string{"site/here.py": "", "site/space/one.py": ""}},

		{about: "requirements.txt", code: "import PIL",
			want: "Pillow==9.0 a[x,y]>=1,<2 b c==1 ; python_version<\"4\" d==1 |  | ", files: map[string]string{
				"requirements.txt": "# all\n-r other.txt\n--index-url http://else.test/\n-e .\nPillow==9.0  # " +
					"images\n" +
					"a[x,y]>=1,<2\r\n\nb\n./here\nx @ http://else.test/x.whl\ngit+https://else.test/x\n" +
					"c==1 ; python_version<\"4\"\nd==1 --hash=sha256:00\n"}},
		{about: "what the root has of a list", want: "b>=2 c |  | ",
			files: map[string]string{"requirements.txt": "a\nb>=2\nc\n",
				"site/a-1.dist-info/METADATA": "Name: a\nVersion: 1",
				"site/b-1.dist-info/METADATA": "Name: b\nVersion: 1"}},
		{about: "pyproject.toml", code: "import a", want: "a==1 b |  | ",
			files: map[string]string{"pyproject.toml": "[project]\nname = 'p'\ndependencies = [\n 'a==1',\n 'b',\n " +
				"'c @ file:///c',\n]\n" +
				"[project.optional-dependencies]\nx = ['d']"}},
		{about: "PEP 723", code: "#!/usr/bin/env python3\n# /// script\n# requires-python = '>=3.9'\n# " +
			"dependencies = [\n#   'a<2', # why\n#\n#   'b',\n# ]\n# ///\nimport c", want: "a<2 b | c | "},
		{about: "PEP 723 with the lines of Windows",
			code: "\ufeff# /// script\r\n# dependencies = ['a']\r\n# ///\r\nimport b\r\n", want: "a | b | "},
		{about: "another block", code: "# /// other\n# dependencies = ['a']\n# ///\n", want: " |  | "},
		{about: "lists that are none", code: "# /// script\n# dependencies = 5\n# ///\nimport a", want: " | a | ",
			files: map[string]string{"pyproject.toml": "[project]\ndependencies = 'abc'\n"}},
		{about: "lists that are broken", code: "# /// script\n# dependencies = " + strings.Repeat("[", 5000) +
			"\n# ///\nimport a", want: " | a | ", files: map[string]string{"pyproject.toml": "project = 'x'",
			"requirements.txt": "\x00\xff=="}},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got := find(t, in, &c, command); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}

// TestFindingJavaScript is TestFindingPython for JavaScript and TypeScript.
func TestFindingJavaScript(t *testing.T) {
	program, err := exec.LookPath("node")
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	tool := filepath.Join(t.TempDir(), "tool")
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	content, err := libexec.Tool(libexec.Options{Dir: os.Getenv("FUMEHOOD_LIBEXEC"),
		CacheDir: filepath.Join(cache, "fumehood")}, "typescript")
	if err != nil {
		t.Skipf("SKIPPED, NOT TESTED: %v", err)
	}
	text, err := io.ReadAll(content)
	content.Close()
	if err == nil {
		err = os.WriteFile(tool, text, 0o700)
	}
	if err != nil {
		t.Fatal(err)
	}
	in := javascript.Installer
	for _, c := range []finding{
		{about: "a module", name: "main.mjs", want: " | @s/c a b d e f | ",
			code: "import a from 'a'; import 'b/deep/x.js'; import * as unused from '@s/c/x'; export {d} from 'd'; " +
				"await import('e'); const f = () => require('f');\n" +
				"import fs from 'node:fs'; import 'path'; import 'fs/promises'; import test from 'node:test'; import " +
				"{x} from 'data:text/javascript,1';\n" +
				"import '#inside'; import 'https://else.test/x.js'; import '/abs.js'; import './none.js'"},
		{about: "names with dots", name: "main.js",
			code: "require('socket.io'); require('chart.js/auto'); require('@s/a.b/c')",
			want: " | @s/a.b chart.js socket.io | "},
		{about: "a script", name: "main.js",
			code: "const a = require('a'), {b} = require('@s/b'); require('c/d'); import('e').then(x => x); " +
				"require.resolve('f'); require(name); const x = <a/>", want: " | @s/b a c e | "},
		{about: "types alone", name: "main.ts",
			code: "import type {T} from 'a'; import {U} from 'b'; import {v} from 'c'; let x: T & U = v; import d " +
				"= require('d'); d()", want: " | c d | "},
		{about: "local files", name: "main.ts", code: "import './one'; import {two} from './lib/two.js'; two()",
			want: " | far near | ",
			files: map[string]string{"one.ts": "import 'near'; import './main'",
				"lib/two.ts": "import {x} from 'far'; import '../one'; export const two = x"}},
		{about: "a program in a folder", name: "app/main.mjs", want: " | far near | ",
			files: map[string]string{"app/main.mjs": "import './beside.mjs'; import '../above.mjs'",
				"app/beside.mjs": "import 'near'", "above.mjs": "import 'far'"}},
		{about: "beside a directory of the host", name: "/tmp/main.js",
			code: "require('lib'); require('pack'); require('a')", want: " | a | ",
			files: map[string]string{"lib.js": "", "pack/index.js": ""}},
		{about: "package.json, and what is there", name: "main.mjs",
			code: "import 'a'; import 'b'; import 'i/x'; import '@s/j'", want: "a@^1.2 c@* | b | ",
			files: map[string]string{
				"package.json": `{"dependencies": {"a": "^1.2", "c": "*", "d": "file:../d", ` +
					`"e": "git+https://else.test/e", "f": "npm:g@1"}, "devDependencies": {"h": "1"}}`,
				"node_modules/i/package.json": "{}", "node_modules/@s/j/package.json": "{}"}},
		{about: "broken", name: "main.js", code: "require('a'", want: " |  | ",
			files: map[string]string{"package.json": `{"dependencies": ["b"]`}},
	} {
		t.Run(c.about, func(t *testing.T) {
			if got := find(t, in, &c, in.Survey(program), "/tmp/fumehood-typescript", tool); got != c.want {
				t.Errorf("%q, want %q", got, c.want)
			}
		})
	}
}
