package javascript

import (
	"net/http"
	"net/http/httptest"
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

// TestIncompleteInstallation: a package that depends on a folder is refused, as the layer would lack it. So is an
// installation in which npm left out an optional dependency that others could get.
func TestIncompleteInstallation(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
	}
	index := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Length", "1000")
		_, _ = w.Write([]byte(`{"name"`)) // and the connection ends
	}))
	defer index.Close()
	dir := t.TempDir()
	const whole = `{"missing":[],"packages":[{"name":"a","version":"1.0.0","requires":[],"hash":""}`
	const got = "http fetch GET 200 https://mirror.test/of/b.tgz 1ms (cache miss)"
	const lost = `, "node_modules/b": {"version": "1.0.0", "optional": true, "resolved": "https://index.test/b.tgz"`
	const unfit = `, "node_modules/c": {"version": "1.0.0", "optional": true, "dependencies": {"b": "1"}, ` +
		`"resolved": "https://index.test/c.tgz"}`
	for _, c := range []struct{ log, more, want string }{
		{"", "", whole + `],"lock":`},
		{"", `, "../b": {"version": "1.0.0"}`,
			`{"missing":[],"error":"a package depends on ../b, which is not a package`},
		{"", `, "node_modules/b": {"link": true, "resolved": "../b"}`,
			`{"missing":[],"error":"a package depends on ../b,`},
		{got, lost + "}", `{"missing":[],"error":"node_modules/b could not be unpacked","full":false,"down":true}`},
		{got + `\nnpm warn tar TAR_ENTRY_ERROR ENOSPC: no space`, lost + "}",
			`{"missing":[],"error":"node_modules/b could not be unpacked","full":true,"down":false}`},
		{"http fetch GET https://index.test/b attempt 2 failed with ECONNRESET", "",
			`{"missing":[],"error":"https://index.test/b could not be fetched","down":true}`},
		{`http fetch GET https://index.test/a attempt 1 failed with 503\n` +
			"npm http fetch GET 200 https://index.test/a 1ms", "", whole},
		{"http fetch GET 404 https://index.test/b.tgz 1ms", lost + "}", whole},
		{"http fetch GET 429 https://index.test/b 1ms", "",
			`{"missing":[],"error":"https://index.test/b could not be fetched","down":true}`},
		{"\\n'; node -e 'require(`http`).get(`" + index.URL +
			"/b`, (r) => r.resume().on(`error`, () => {}))'; printf '", "",
			`{"missing":[],"error":"` + index.URL + `/b could not be fetched","down":true}`},
		{"", lost + "}", whole}, // for another system
		{got, lost + `, "dependencies": {"c": "1"}}` + unfit, whole},
		{got, strings.Replace(lost, "/b", "/c/node_modules/b", 1) + "}" + unfit, whole},
	} {
		npm := "#!/bin/sh\nmkdir node_modules\nprintf 'npm " + c.log + "\\n' >&2\necho '" +
			`{"packages": {"": {"dependencies": {"a": "1"}, "optionalDependencies": {"b": "1", "c": "1"}}, ` +
			`"node_modules/a": {"version": "1.0.0"}` + c.more + "}}' > package-lock.json\n"
		if err := os.WriteFile(filepath.Join(dir, "npm"), []byte(npm), 0o700); err != nil {
			t.Fatal(err)
		}
		installer := exec.Command(node, "-e", install)
		installer.Env = []string{"PATH=" + dir + ":" + os.Getenv("PATH")}
		installer.Stdin = strings.NewReader(`{"index": "https://index.test/", "requirements": ["a"], "found": [], ` +
			`"dir": "` + filepath.Join(t.TempDir(), "layer") + `"}`)
		if out, err := installer.Output(); err != nil || !strings.HasPrefix(string(out), c.want) {
			t.Errorf("%q, %q: %s, %v; want %s", c.log, c.more, out, err, c.want)
		}
	}
}

// TestSurveyWithoutTool: a survey fails if the tool that finds imports fails, for example for lack of memory.
func TestSurveyWithoutTool(t *testing.T) {
	node, err := exec.LookPath("node")
	if err != nil {
		t.Skip("there is no node here")
	}
	tool := filepath.Join(t.TempDir(), "tool")
	program := strings.Replace(survey, "/tmp/fumehood-typescript", tool, 1)
	for script, works := range map[string]bool{"cat >/dev/null; echo []": true, "kill -9 $$": false, "exit 2": false} {
		if err := os.WriteFile(tool, []byte("#!/bin/sh\n"+script), 0o700); err != nil {
			t.Fatal(err)
		}
		cmd := exec.Command(node, "-e", program)
		cmd.Stdin = strings.NewReader(`{"auto": true, "name": "", "code": "require('a')", "requirements": []}`)
		if out, err := cmd.Output(); (err == nil) != works {
			t.Errorf("%s: %s, %v", script, out, err)
		}
	}
}
