package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// uvRoot makes a root of Python, uv and the libraries of both, without pip. make check names the program of uv.
func uvRoot(t *testing.T) string {
	uv := os.Getenv("PACKAGETEST_UV")
	if uv == "" {
		t.Skip("SKIPPED, NOT TESTED: uv is not here; scripts/python-packages.sh gets it")
	}
	root := t.TempDir()
	const python = "/usr/bin/python3"
	copies := [][2]string{{uv, "usr/local/bin/uv"}, {python, "usr/bin/python3"}}
	version, err := exec.Command(python, "-c", "import sysconfig; print(sysconfig.get_path('stdlib'))").Output()
	if err != nil {
		t.Fatal(err)
	}
	library := strings.TrimSpace(string(version))
	copies = append(copies, [2]string{library, strings.TrimPrefix(library, "/")})
	modules, err := filepath.Glob(library + "/lib-dynload/*.so")
	if err != nil {
		t.Fatal(err)
	}
	needs, err := exec.Command("ldd", append(modules, uv, python)...).Output()
	if err != nil {
		t.Fatal(err)
	}
	seen := map[string]bool{}
	for _, file := range regexp.MustCompile(`(?m)(/\S+) \(0x`).FindAllStringSubmatch(string(needs), -1) {
		if path := file[1]; !seen[path] {
			seen[path] = true
			copies = append(copies, [2]string{path, strings.TrimPrefix(path, "/")})
		}
	}
	for _, c := range copies {
		to := filepath.Join(root, c[1])
		if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
			t.Fatal(err)
		}
		if out, err := exec.Command("cp", "-rL", c[0], to).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	}
	if err := os.Chmod(filepath.Dir(root), 0o755); err != nil {
		t.Fatal(err)
	}
	return root
}

// TestPackagesOfUV: if the root has uv, it installs packages instead of pip. An error has the words of uv, and a fix.
func TestPackagesOfUV(t *testing.T) {
	root := uvRoot(t)
	isNetworkReady(t)
	i, cache := newIndex(t), t.TempDir()
	i.flags = append(i.flags, "--root", root)
	i.wheel("glvdep", "1.0", "value = 41", "")
	i.wheel("glvmain", "1.0", "import glvdep; value = glvdep.value + 1", "", "glvdep")
	i.wheel("glvlies", "1.0", "value = 1", strings.Repeat("0", 64))
	i.wheel("glva", "1.0", "", "", "glvc==1")
	i.wheel("glvb", "1.0", "", "", "glvc==2")
	i.wheel("glvc", "1", "", "")
	i.wheel("glvc", "2", "", "")
	i.link("glvelse", "/archives/glvelse-1.0-cp311-cp311-win_amd64.whl")
	i.sdist("glvbuilt", fmt.Sprintf(hostileBackend, "/none"))

	file, lock := filepath.Join(t.TempDir(), "a.py"), filepath.Join(t.TempDir(), "lock")
	if err := os.WriteFile(file, []byte("import glvmain, os\ntry: import glvnone\nexcept ImportError: print(glvmain.value, os.path.exists(glvmain.__cached__))"), 0o600); err != nil {
		t.Fatal(err)
	}
	text, _ := i.run(cache, 0, "deps", "lock", file)
	if !regexp.MustCompile(`^glvdep==1\.0 +--hash=sha256:\w+\s+glvmain==1\.0 +--hash=sha256:\w+\s+$`).MatchString(
		text) {
		t.Errorf("%q", text)
	}
	i.wheel("glvdep", "2.0", "value = 0", "")
	if err := os.WriteFile(lock, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		cache, want string
		args        []string
	}{
		{cache, "42 True\n", []string{"-p", "auto", file}},
		{t.TempDir(), "42 True\n", []string{"--lock", lock, file}},
		{cache, "1\n", []string{"-p", "glvmain", "-c", "import glvmain; print(glvmain.value)"}},
		{cache, "['poison']\n", []string{"--allow-build", "-p", "glvbuilt", "-c",
			"import glvbuilt; print(glvbuilt.could)"}},
	} {
		if out, _ := i.run(c.cache, 0, append([]string{"run"}, c.args...)...); out != c.want {
			t.Errorf("%q: %q", c.args, out)
		}
	}
	for _, c := range []struct{ names, words, fix string }{
		{"requestss", "requestss was not found", "fix: did you mean requests?"},
		{"glvlies", "Hash mismatch", ""},
		{"glvbuilt", "glvbuilt", "fix: build an archive of glvbuilt, as none is built for this interpreter: --allow-build"},
		{"glvelse", "glvelse", "fix: glvelse has no archive for this interpreter and system"},
		{"glva glvb", "glvc==1", ""},
		{"glvc==3", "glvc==3", ""},
	} {
		args := []string{"run", "-c", "1"}
		for name := range strings.FieldsSeq(c.names) {
			args = append(args, "-p", name)
		}
		if _, errs := i.run(cache, 125, args...); !strings.Contains(errs, c.words) || !strings.Contains(errs, c.fix) {
			t.Errorf("%s: %s", c.names, errs)
		}
	}
	if left, err := os.ReadDir(filepath.Join(cache, "work")); err != nil || len(left) > 0 {
		t.Errorf("work is left over: %v %v", left, err)
	}
}

// TestPasswordOfUV: uv trusts the gate, which inserts the password of the index.
func TestPasswordOfUV(t *testing.T) {
	root := uvRoot(t)
	isNetworkReady(t)
	i := newLockedIndex(t, indexPassword)
	i.flags = []string{"--root", root}
	i.env = []string{"FUMEHOOD_PACKAGE_INDEX=python=https://reader:" + indexPassword + "@example.com/simple"}
	i.wheel("glvmain", "1.0", "value = 42", "")
	if out, errs := i.run(t.TempDir(), 0, "run", "-p", "auto", "-c",
		"import glvmain; print(glvmain.value)"); out != "42\n" || strings.Contains(errs, indexPassword) {
		t.Errorf("%q %s", out, errs)
	}
	i.isAlone()
	i.wants("another")
	if _, errs := i.run(t.TempDir(), 125, "run", "-p", "glvmain", "-c", "1"); !strings.Contains(errs,
		"fix: give the name and the password that the index requires") || strings.Contains(errs, indexPassword) {
		t.Errorf("%s", errs)
	}
}
