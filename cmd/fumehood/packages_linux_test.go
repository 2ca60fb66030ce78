package main

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
)

// isPackagesReady skips a test if packages cannot be installed.
func isPackagesReady(t *testing.T, programs ...string) {
	isNetworkReady(t)
	for _, p := range programs {
		if _, err := os.Stat(p); err != nil {
			t.Skipf("packages are not installed here: %v", err)
		}
	}
}

const pipFile, npmFile = "/usr/bin/pip", "/usr/bin/npm"

// onBackends runs a test on native, and without -short on all backends.
func onBackends(t *testing.T, program string, test func(i *index)) {
	for _, backend := range []string{"native", "gvisor", "docker", "podman"} {
		t.Run(backend, func(t *testing.T) {
			if testing.Short() && backend != "native" {
				t.Skip("SKIPPED, NOT TESTED: native alone has the same packages")
			}
			programs := []string{program}
			if engineVariables[backend] != "" {
				programs = nil // the image has it
			}
			isPackagesReady(t, programs...)
			i := newIndex(t)
			i.backend = backend
			test(i)
		})
	}
}

// TestPackagesOfRun: imported packages are installed once, and the run has no network. A lock repeats the installation.
func TestPackagesOfRun(t *testing.T) { onBackends(t, pipFile, packagesOfRun) }

func packagesOfRun(i *index) {
	t, cache := i.t, i.t.TempDir()
	i.wheel("glvdep", "1.0", "value = 20", "")
	i.wheel("glvmain", "1.0", "import glvdep; value = glvdep.value + 1", "", "glvdep")
	i.wheel("glvmain", "2.0", "import glvdep; value = glvdep.value * 2 + 2", "", "glvdep>=1")
	const code = "import glvmain, json\ntry: import glvnone\nexcept ImportError: pass\nimport socket\ntry: socket.create_connection(('93.184.215.14', 80), 2)\n" +
		"except OSError: print(glvmain.value)"
	out, errs := i.run(cache, 0, "run", "--packages", "auto", "-c", code)
	if out != "42\n" || !strings.Contains(errs, "note: installing glvmain\n") {
		t.Errorf("%q, %q", out, errs)
	}
	if out, errs := i.run(cache, 0, "run", "--packages", "auto", "-c", code); out != "42\n" || errs != "" {
		t.Errorf("the second time: %q, %q", out, errs)
	}
	if out, _ := i.run(cache, 0, "run", "--packages", "auto", "-c",
		"%pip install -q glvmain\nif True:\n  import glvmain\n  print(glvmain.value)"); out != "42\n" {
		t.Errorf("by a line of a notebook: %q", out)
	}
	if _, errs := i.run(cache, 1, "run", "-c", "!pip install glvmain\nimport glvmain"); !strings.Contains(errs,
		"a sandbox has no network. Packages for Python 3 are installed before its code runs: add --packages NAME.") {
		t.Errorf("such a line without packages: %q", errs)
	}
	if out, _ := i.run(cache, 0, "run", "-p", "glvmain", "-c",
		"import glvmain; print(glvmain.value, glvmain.__cached__ != '')"); out != "42 True\n" {
		t.Errorf("by name: %q", out) // another key, and the same packages
	}
	if out, _ := i.run(cache, 0, "run", "-p", "glvmain==1.0", "-c",
		"import glvmain; print(glvmain.value)"); out != "21\n" {
		t.Errorf("pinned: %q", out)
	}
	file := filepath.Join(t.TempDir(), "a.py")
	if err := os.WriteFile(file, []byte(code), 0o600); err != nil {
		t.Fatal(err)
	}
	lock, _ := i.run(cache, 0, "deps", "lock", file)
	for _, want := range []string{"glvdep==1.0 --hash=sha256:", "glvmain==2.0 --hash=sha256:"} {
		if !strings.Contains(lock, want) {
			t.Errorf("no %q in %q", want, lock)
		}
	}
	i.wheel("glvdep", "3.0", "value = 0", "")
	locked := filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(locked, []byte(lock), 0o600); err != nil {
		t.Fatal(err)
	}
	if out, _ := i.run(t.TempDir(), 0, "run", "--lock", locked, file); out != "42\n" {
		t.Errorf("locked: %q", out)
	}
	for _, c := range []struct {
		words []string
		want  string
	}{
		{[]string{"why", "glvdep"}, `(?s)LAYER.*\n\w{12} +1.0 +glvmain\n`},
		{[]string{"why", "glvdep", "--json"}, `(?s)^\[\n.*"layer": "\w{64}",\n +"version": "1.0",\n +"requested": false,` +
			`\n +"required_by": \[\n +"glvmain"`},
		{[]string{"lock", file, "--json"}, `(?s)^{.*"lock": "glv\w+==\d.0 .*"missing": \[\]`},
		{[]string{"ls"}, `(?s)HITS.*glvmain.*glvmain`},
		{[]string{"ls", "--json"}, `(?s)"language": "python".*"hits": [1-9]\d*,\n +"used": "20`},
		{[]string{"prune"}, `^removed 0 layers`},
		{[]string{"prune", "--json", "--all"}, `(?s)^{\n +"bytes": \d+,\n +"removed": \[\n.*"digest".*"digest"`},
		{[]string{"ls", "--json"}, `^\[\]\n$`},
	} {
		if out, _ := i.run(cache, 0, append([]string{"deps"}, c.words...)...); !regexp.MustCompile(
			c.want).MatchString(out) {
			t.Errorf("%s: %s", c.words, out)
		}
	}
}

// TestIndexPassword: a password of an index is only accepted in a variable or the configuration, because other users
// can read a command line.
func TestIndexPassword(t *testing.T) {
	const index = "python=https://name:password@index.test/simple"
	for _, c := range []struct {
		words    []string
		variable string
		code     int
	}{{[]string{"--package-index", index}, "", 125}, {nil, index, 0},
		{nil, "python=https://name:short12@index.test/simple", 125}} { // too short
		var out, errs bytes.Buffer
		m := testApp(t).Main
		m.Stdout, m.Stderr = &out, &errs
		m.Environ = func() []string { return []string{"FUMEHOOD_PACKAGE_INDEX=" + c.variable} }
		code := m.Run(t.Context(), append([]string{"deps", "ls", "--package-cache", t.TempDir()}, c.words...))
		if code != c.code || strings.Contains(errs.String(), "password@") || strings.Contains(errs.String(),
			"fix: set FUMEHOOD_PACKAGE_INDEX=python=https://NAME:PASSWORD@HOST/") != (code != 0) {
			t.Errorf("%q: exit code %d, %s", c.words, code, &errs)
		}
	}
}

// TestPackagesRefused: an error about a package has the words of the index, and a fix.
func TestPackagesRefused(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: each refusal starts pip, for a second")
	}
	isPackagesReady(t, pipFile)
	i, cache := newIndex(t), t.TempDir()
	i.wheel("glvlies", "1.0", "value = 1", strings.Repeat("0", 64))
	i.link("glvsource", "/archives/glvsource-1.0.tar.gz")
	i.link("glvelse", "/archives/glvelse-1.0-cp311-cp311-win_amd64.whl")
	i.wheel("glva", "1.0", "", "", "glvc==1")
	i.wheel("glvb", "1.0", "", "", "glvc==2")
	i.wheel("glvc", "1", "", "")
	i.wheel("glvc", "2", "", "")
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"-p", "requestss"}, "fix: did you mean requests?"},
		{[]string{"-p", "glvlies"}, "DO NOT MATCH THE HASHES"},
		{[]string{"-p", "glvsource"},
			"fix: build an archive of glvsource, as none is built for this interpreter: --allow-build"},
		{[]string{"-p", "glvelse"}, "fix: glvelse has no archive for this interpreter and system; ask for another version, or use another root or image"},
		{[]string{"-p", "glvelse", "--allow-build"}, "fix: glvelse has no archive for this interpreter and system; "},
		{[]string{"-p", "glva", "-p", "glvb"}, "glva 1.0 depends on glvc==1"},
		{[]string{"-p", "--index-url=http://else.test/"},
			`"--index-url=http://else.test/" is not the name of a package`},
		{[]string{"-p", "./wheel"}, "not from a path or a repository"},
		{[]string{"-p", "x @ http://else.test/x.whl"}, "only from the index, not from an address"},
		{[]string{"-p", "git+https://else.test/x"}, "fix: let the code install it, in a sandbox whose network"},
		{[]string{"--package-index", "python=https://secret@index.test/", "-p", "x"},
			"error: --package-index: the address has a name without a password"},
		{[]string{"--package-index", "python=http://name:secret12@index.test/", "-p", "x"},
			"error: --package-index: a password requires https"},
		{[]string{"--package-index", "python=https://name:secret12@192.0.2.1/", "-p", "x"},
			"error: --package-index: a password requires https"},
		{[]string{"--lang", "bash", "-p", "jq"}, "there are no packages to install for Bash"},
	} {
		if _, errs := i.run(cache, 125, append(append([]string{"run"}, c.args...), "-c", "1")...); !strings.Contains(
			errs,
			c.want) {
			t.Errorf("%q: no %q in\n%s", c.args, c.want, errs)
		}
	}
	_, errs := i.run(cache, 1, "run", "-p", "auto", "-c", "import glvnowhere")
	if !strings.Contains(errs, "hint: The index has no package for the import of glvnowhere.") {
		t.Errorf("%s", errs)
	}
	const without = "try: import glva, glvb.x\nexcept ImportError: glva = None\nif not glva: exit(3)"
	for range 2 { // the second comes from the cache
		if _, errs := i.run(cache, 3, "run", "-p", "auto", "-c", without); !strings.Contains(errs,
			"Optional packages were not installed: glva, glvb. To install one, add --packages NAME.") {
			t.Errorf("%s", errs)
		}
	}
	if _, errs := i.run(cache, 1, "run", "-c", "import glvnowhere"); !strings.Contains(errs, "add --packages auto") {
		t.Errorf("%s", errs)
	}
	if _, errs := i.run(cache, 0, "run", "--lang", "bash", "-p", "auto", "-c",
		"if false; then glvtool; xmlstarlet; fi"); !strings.Contains(errs,
		"glvtool, xmlstarlet (Debian package xmlstarlet)") {
		t.Errorf("%s", errs)
	}
	if left, err := os.ReadDir(filepath.Join(cache, "work")); err != nil || len(left) > 0 {
		t.Errorf("work is left over: %v %v", left, err)
	}
}

// TestPackagesOfNPM is a short TestPackagesOfRun for JavaScript.
func TestPackagesOfNPM(t *testing.T) { onBackends(t, npmFile, packagesOfNPM) }

func packagesOfNPM(i *index) {
	t, cache := i.t, i.t.TempDir()
	i.tarball("glvjs", "1.0.0", "module.exports = 42")
	for _, code := range []string{"import v from 'glvjs'; console.log(v)", "console.log(require('glvjs'))",
		"import('glvjs').then((m) => console.log(m.default))"} {
		if out, _ := i.run(cache, 0, "run", "-l", "js", "-p", "auto", "-c", code); out != "42\n" {
			t.Errorf("%s: %q", code, out)
		}
	}
	if out, _ := i.run(cache, 0, "run", "-l", "ts", "-p", "auto", "-c",
		"import v from 'glvjs'; const x: number = v; console.log(x)"); out != "42\n" {
		t.Errorf("TypeScript: %q", out)
	}
	if n := i.downloads("glvjs"); n != 1 {
		t.Errorf("it was downloaded %d times", n)
	}
}

// TestUnknownOfNPM: an import that the index lacks is skipped, also with a scope. A similar name is suggested for a
// misspelt one.
func TestUnknownOfNPM(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: npm takes a second for each name")
	}
	isPackagesReady(t, npmFile)
	i, cache := newIndex(t), t.TempDir()
	i.tarball("glvjs", "1.0.0", "module.exports = 42")
	const caught = "let x; for (const f of [() => require('glvnone'), () => require('@glv/none/part'), () => require('glvjs')]) try { x = f() } catch {}; console.log(x)"
	if out, _ := i.run(cache, 0, "run", "-l", "js", "-p", "auto", "-c", caught); out != "42\n" {
		t.Errorf("caught: %q", out)
	}
	if _, errs := i.run(cache, 1, "run", "-l", "js", "-p", "auto", "-c", "require('glvnone')"); !strings.Contains(errs,
		"hint: The index has no package for the import of glvnone.") {
		t.Errorf("%s", errs)
	}
	_, errs := i.run(cache, 125, "run", "-l", "js", "-p", "lodahs", "-c", "1")
	if !strings.Contains(errs, "404 Not Found - GET http://index.test/lodahs") || !strings.Contains(errs,
		"fix: did you mean lodash?") || regexp.MustCompile(`(?m)^\s*404\s*$`).MatchString(errs) {
		t.Errorf("%s", errs)
	}
}

// TestPackagesAtOnce: concurrent runs that need the same packages wait for one installation. Each has its own cache
// object on one folder, like a process, so only the locks of the folder connect them. The remains of a dead process are
// removed.
func TestPackagesAtOnce(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: it loads the machine with sandboxes")
	}
	isPackagesReady(t, pipFile)
	i, cache := newIndex(t), t.TempDir()
	i.wheel("glvonce", "1.0", "value = 42", "")
	dead := filepath.Join(cache, "work", "layer-dead")
	if err := os.MkdirAll(filepath.Join(dead, "tree"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dead, "used"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	var all sync.WaitGroup
	for range 12 {
		all.Go(func() {
			if out, _ := i.run(cache, 0, "run", "-p", "glvonce", "-c",
				"import glvonce; print(glvonce.value)"); out != "42\n" {
				t.Errorf("%q", out)
			}
		})
	}
	all.Wait()
	if n := i.downloads("glvonce"); n != 1 {
		t.Errorf("it was downloaded %d times", n)
	}
	if left, err := os.ReadDir(filepath.Join(cache, "work")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestPackagesOfSandbox: packages added to a living sandbox appear at once and stay after a restart of the server. A
// newer version replaces an older one completely.
func TestPackagesOfSandbox(t *testing.T) {
	isPackagesReady(t, pipFile)
	i := newIndex(t)
	i.wheel("glvlive", "1.0", "value = 1", "")
	i.wheel("glvother", "1.0", "value = 40", "")
	cache, state := t.TempDir(), t.TempDir()
	start := func() *served {
		return startServerWith(t, func(m *Main) { m.Gate = i.gate }, "--backend", "native", "--allow-unenforced",
			"memory",
			"--state-dir", state,
			"--package-cache", cache, "--package-index", "python=http://index.test/simple")
	}
	s := start()
	c := &commands{t, s.url}
	c.run(0, "", "create", "--name", "a")
	if out, errs := c.run(0, "", "run", "--in", "a", "-c",
		"%pip install glvlive==1.0\nimport glvlive\nglvlive.value"); out != "1\n" || !strings.Contains(errs,
		"note: installing glvlive==1.0\n") {
		t.Errorf("%q, %q", out, errs)
	}
	out, _ := c.run(1, "", "run", "--in", "a", "--json", "-p", "auto", "-c",
		"import glvother\nprint(glvother.value + glvlive.value)\nimport glvnone")
	for _, want := range []string{`"stdout": "41\n"`, `"name": "glvother"`,
		`The index has no package for the import of glvnone.`} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in %s", want, out)
		}
	}
	if _, errs := c.run(125, "", "run", "--in", "a", "-c", "%pip install glvnowhere"); !strings.Contains(errs,
		"No matching distribution found for glvnowhere") {
		t.Errorf("%s", errs)
	}
	s.stop(t)
	s.exit <- 0 // for the clean-up, which stops it again
	s = start()
	c = &commands{t, s.url}
	i.wheel("glvlate", "1.0", "value = 2", "")
	if out, _ := c.run(0, "", "run", "--in", "a", "-c",
		"%pip install glvlate\nimport glvlate\nglvlate.value + glvother.value"); out != "42\n" {
		t.Errorf("after a restart: %q", out)
	}
	if out, _ := c.run(0, "", "exec", "a", "--", "python3", "-c",
		"import glvlive, glvother, glvlate; print(len(glvlive.__path__))"); out != "1\n" {
		t.Errorf("a process of its own: %q", out)
	}
	i.wheel("glvlive", "2.0", "value = 2", "")
	if out, _ := c.run(0, "", "run", "--in", "a", "-c",
		"note = '''\n%pip install glvnowhere\n'''\n%pip install glvlive==2.0\n!python3 -c 'import glvlive, glvother; print(glvlive.value)'"); out != "2\n" {
		t.Errorf("another version: %q", out)
	}
	c.run(0, "", "rm", "a")
	if left, err := os.ReadDir(filepath.Join(state, "logs", "packages")); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

// TestNPMOfSandbox: JavaScript and TypeScript share the packages of a living sandbox.
func TestNPMOfSandbox(t *testing.T) {
	isPackagesReady(t, npmFile)
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: package engine has the same without npm")
	}
	i := newIndex(t)
	i.tarball("glvjs", "1.0.0", "module.exports = 40")
	i.tarball("glvts", "1.0.0", "module.exports = 2")
	s := startServerWith(t, func(m *Main) { m.Gate = i.gate }, "--backend", "native", "--allow-unenforced", "memory",
		"--checks", "enforce", "--check-deny", "process",
		"--package-cache", t.TempDir(), "--package-index", "javascript=http://index.test/")
	c := &commands{t, s.url}
	c.run(0, "", "create", "--name", "a")
	for _, one := range []struct{ language, packages, code, want string }{
		{"js", "auto", "require('glvjs')", "40\n"},
		{"ts", "glvts", "import a from 'glvjs'; import b from 'glvts'; const n: number = a + b; console.log(n)",
			"42\n"},
		{"js", "glvjs", "require('glvjs') + require('glvts')", "42\n"},
	} {
		if out, errs := c.run(0, "", "run", "--in", "a", "-l", one.language, "-p", one.packages, "-c",
			one.code); out != one.want {
			t.Errorf("%s: %q, %s", one.code, out, errs)
		}
	}
}
