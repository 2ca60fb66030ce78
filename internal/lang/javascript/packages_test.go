package javascript

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// TestOnlyTheIndex: a requirement is one of the index, never an option, a path or an address, and a lock has no other.
func TestOnlyTheIndex(t *testing.T) {
	for _, text := range []string{"a", "JSONStream", "@s/a", "a@1", "@s/a@^1.2.3 || 2.x", "a@>=1 <2", "a@latest"} {
		if !validRequirement(text) {
			t.Errorf("%q is none", text)
		}
	}
	for _, text := range []string{"", "@s", "-g", "--registry=http://else.test/", "./a", "../a", "/a", "s/a", "file:a",
		"github:s/a", "git+https://else.test/a", "http://else.test/a.tgz",
		"a@file:../a", "a@npm:b@1", "a@github:s/a", "a@http://else.test/a.tgz", "a\n", "a@1\n--ignore-scripts=false",
		"a@1\r--x", "\u0430"} {
		if validRequirement(text) {
			t.Errorf("%q is a requirement", text)
		}
	}
	const good = `{"lockfileVersion": 3, "packages": {"": {"dependencies": {"a": "^1"}}, ` +
		`"node_modules/a": {"version": "1.0.0"}, "node_modules/a/node_modules/@s/b": {"version": "1.0.0"}}}`
	if !validLock(good) {
		t.Error("a lock of npm is none")
	}
	for _, text := range []string{"", "[]", `{"lockfileVersion": 1, "packages": {"": {}}}`,
		`{"lockfileVersion": 3, "packages": {}}`,
		`{"lockfileVersion": 3, "packages": {"": {"dependencies": {"a": "file:../a"}}}}`,
		`{"lockfileVersion": 3, "packages": {"": {"dependencies": {"--x": "1"}}}}`,
		`{"lockfileVersion": 3, "packages": {"": {}, "node_modules/a": {"version": "1", "link": true}}}`,
		`{"lockfileVersion": 3, "packages": {"": {}, "node_modules/a": {}}}`,
		`{"lockfileVersion": 3, "packages": {"": {}, "a": {"version": "1"}}}`,
		`{"lockfileVersion": 3, "packages": {"": {}, "node_modules/../../a": {"version": "1"}}}`} {
		if validLock(text) {
			t.Errorf("%s is a lock", text)
		}
	}
}

// TestInstallOfFolder: a package that depends on a folder is refused, as the layer would lack it.
func TestInstallOfFolder(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
	}
	dir := t.TempDir()
	for _, c := range []struct{ more, want string }{
		{"", `{"missing":[],"packages":[{"name":"a","version":"1.0.0","requires":[],"hash":""}],"lock":`},
		{`, "../b": {"version": "1.0.0"}`, `{"missing":[],"error":"a package depends on ../b, which is not a package`},
		{`, "node_modules/b": {"link": true, "resolved": "../b"}`, `{"missing":[],"error":"a package depends on ../b,`},
	} {
		npm := "#!/bin/sh\nmkdir node_modules\necho '" + `{"packages": {"": {}, "node_modules/a": {"version": "1.0.0"}` +
			c.more + "}}' > package-lock.json\n"
		if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(npm), 0o700); err != nil {
			t.Fatal(err)
		}
		installer := exec.Command(node, "-e", install)
		installer.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		installer.Stdin = strings.NewReader(`{"index": "https://index.test/", "requirements": ["a"], "found": [], ` +
			`"dir": "` + filepath.Join(t.TempDir(), "layer") + `"}`)
		if out, err := installer.Output(); err != nil || !strings.HasPrefix(string(out), c.want) {
			t.Errorf("%s, %v; want %s", out, err, c.want)
		}
	}
}
