package httpapi_test

import (
	"encoding/base64"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestRun(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})

	t.Run("what curl -d sends", func(t *testing.T) {
		res, text := r.do("POST", "/v1/run", `{"language":"python","code":"print(6*7)"}`,
			header{"Content-Type": "application/x-www-form-urlencoded"})
		a := parse[api.Answer](t, text)
		if res.StatusCode != 200 || a.Status != sandbox.StatusSucceeded || a.Stdout != "42\n" || *a.ExitCode != 0 ||
			a.Signal != nil {
			t.Fatalf("%s: %s", res.Status, text)
		}
		for name, want := range (header{"Content-Type": "application/json", "X-Content-Type-Options": "nosniff",
			"Cache-Control": "no-store"}) {
			if got := res.Header.Get(name); got != want {
				t.Errorf("%s: %q", name, got)
			}
		}
		if got := res.Header.Get("Access-Control-Allow-Origin"); got != "" {
			t.Errorf("other sites may read it: %q", got)
		}
	})
	t.Run("every field is there", func(t *testing.T) {
		_, text := r.do("POST", "/v1/run", bash("true"), nil)
		got := parse[object](t, text)
		for _, name := range strings.Fields(`id status exit_code signal stdout stderr results exception files hint usage timings`) {
			if _, ok := got[name]; !ok {
				t.Errorf("%s is missing", name)
			}
		}
		for _, name := range strings.Fields("results files") {
			if got[name] == nil {
				t.Errorf("%s is null", name)
			}
		}
	})
	t.Run("exceptions", func(t *testing.T) {
		a := r.run(python("x = 1\nraise ValueError('no')"))
		if a.Status != sandbox.StatusFailed || *a.ExitCode != 1 || a.Exception == nil || a.Exception.Name != "ValueError" ||
			a.Exception.Value != "no" ||
			!strings.Contains(a.Stderr, "Traceback") || a.Exception.Traceback != "" || a.Hint != nil {
			t.Errorf("%+v", a)
		}
	})
	t.Run("a command with arguments, stdin and variables", func(t *testing.T) {
		a := r.run(jsonOf(object{"command": []string{"/bin/sh", "-c", `cat; echo "$A"`}, "stdin": "in\x00\n",
			"env": object{"A": "b c"}}))
		if a.Stdout != "in\x00\nb c\n" {
			t.Errorf("%q", a.Stdout)
		}
	})
	t.Run("a signal", func(t *testing.T) {
		a := r.run(bash("kill -SEGV $$"))
		if a.Status != sandbox.StatusKilled || a.ExitCode != nil || a.Signal == nil || *a.Signal != 11 {
			t.Errorf("%+v", a)
		}
	})
	t.Run("a timeout", func(t *testing.T) {
		a := r.run(jsonOf(object{"language": "bash", "code": "sleep 60", "limits": object{"timeout_s": 0.2},
			"include": []string{"policy"}}))
		if a.Status != sandbox.StatusTimeout || *a.Policy.Requested.Limits.TimeoutS != 0.2 ||
			a.Policy.Requested.Named[0] != sandbox.LimitTimeout {
			t.Errorf("%+v", a)
		}
	})
	t.Run("stdin that is no text", func(t *testing.T) {
		a := r.run(jsonOf(object{"command": []string{"/bin/cat"}, "stdin_base64": "AP/+"}))
		if string(a.Output.Stdout.Base64) != "\x00\xff\xfe" {
			t.Errorf("%+v", a)
		}
	})
	t.Run("files in and out", func(t *testing.T) {
		bytes := "\x00\xff\xfe"
		a := r.run(jsonOf(object{"language": "bash", "code": "cat d/a b > c; : > e; stat -c %a b",
			"return_files": []string{"*"}, "files": []object{
				{"path": "d/a", "content": "text"}, {"path": "b",
					"content_base64": base64.StdEncoding.EncodeToString([]byte(bytes)), "mode": "0750"}}}))
		if a.Stdout != "750\n" || len(a.Files) != 2 || a.Files[0].Path != "c" ||
			string(a.Files[0].ContentBase64) != "text"+bytes || *a.Files[0].Size != 7 ||
			a.Files[0].SHA256 != "5a81db2402407e46f7f91dab30eb9d31ea6f27ac1b7dd30cf57deca22bc1c0d4" &&
				len(a.Files[0].SHA256) != 64 ||
			a.Files[1].Path != "e" || a.Files[1].Content == nil || a.Files[1].Mode != "0644" {
			t.Errorf("%+v", a)
		}
	})
}

// O02: whatever a program writes comes out byte-exact, in valid JSON.
func TestOutputIsLossless(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	a := r.run(python("import os\nfor _ in range(100): os.write(1, bytes(range(256)))\nos.write(2, '\\ufeff\\x1b[31m€'.encode())"))
	var all strings.Builder
	for range 100 {
		for b := range 256 {
			all.WriteByte(byte(b))
		}
	}
	if string(a.Output.Stdout.Base64) != all.String() || a.Output.Stdout.Truncated {
		t.Errorf("stdout: %d bytes", len(a.Output.Stdout.Base64))
	}
	if a.Stderr != "\ufeff\x1b[31m€" || a.Output.Stderr.Base64 != nil {
		t.Errorf("stderr: %q", a.Stderr)
	}
}

func TestOutputOverTheLimit(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	const written = 3 * 50_000
	a := r.run(jsonOf(object{"language": "python", "code": "print('€' * 50_000, end='')",
		"limits": object{"output_kib": 2}}))
	out := a.Output.Stdout
	gap := fmt.Sprintf("\n[... %d bytes dropped ...]\n", out.DroppedBytes)
	head, tail, ok := strings.Cut(a.Stdout, gap)
	if !ok || !out.Truncated || out.Base64 != nil || int64(len(head)+len(tail))+out.DroppedBytes != written ||
		strings.Trim(head+tail, "€") != "" || head == "" || tail == "" {
		t.Errorf("%d dropped: %q", out.DroppedBytes, short(a.Stdout))
	}
	a = r.run(jsonOf(object{"language": "python", "code": "import os\nos.write(1, b'\\xff' * 9000)",
		"limits": object{"output_kib": 2}}))
	if out = a.Output.Stdout; int64(len(out.Base64))+out.DroppedBytes != 9000 || out.DroppedAt <= 0 ||
		out.DroppedAt >= int64(len(out.Base64)) {
		t.Errorf("%d kept, %d dropped at %d", len(out.Base64), out.DroppedBytes, out.DroppedAt)
	}
}

// H02, H05, H06, A01 and the bad input of every face: a clear problem that names the field, and nothing runs.
func TestRefused(t *testing.T) {
	r := newRig(t, engine.Config{Max: sandbox.Limits{MemoryBytes: 1 << 30}}, httpd.Config{MaxBody: 20 << 20})
	with := func(field string, value any) string {
		return jsonOf(object{"language": "bash", "code": "true", field: value})
	}
	file := func(path string) string { return with("files", []object{{"path": path, "content": "x"}}) }
	for _, c := range []struct {
		name, body string
		status     int
		op, want   string
	}{
		{"a negative time", with("limits", object{"timeout_s": -1}), 400, "limits.timeout_s", "positive"},
		{"no memory", with("limits", object{"memory_mib": 0}), 400, "limits.memory_mib", "positive"},
		{"absurd CPUs", with("limits", object{"cpus": 1e9}), 400, "limits.cpus", "too large"},
		{"negative processes", with("limits", object{"pids": -1}), 400, "limits.pids", "positive"},
		{"half a file", with("limits", object{"inodes": 100.5}), 400, "limits.inodes", "whole number"},
		{"too many descriptors", with("limits", object{"open_files": 1 << 30}), 400, "limits.open_files", "the most is"},
		{"overflow", with("limits", object{"disk_mib": 1e18}), 400, "limits.disk_mib", "too large"},
		{"too little memory", with("limits", object{"memory_mib": 1}), 400, "limits.memory_mib", "the least is"},
		{"over the operator's maximum", with("limits", object{"memory_mib": 2048}), 400, "limits.memory_mib", "over the"},
		{"a limit that the backend cannot keep", with("limits", object{"memory_mib": 512}), 422, "", "not enforced"},
		{"an unknown language", `{"language":"pyton","code":"1"}`, 400, "language", "unknown"},
		{"no code", `{"language":"python"}`, 400, "code", "missing"},
		{"empty code", `{"language":"python","code":" \n"}`, 400, "code", "empty"},
		{"NUL in code", `{"language":"python","code":"a\u0000"}`, 400, "code", "NUL"},
		{"code and command", `{"language":"python","code":"1","command":["ls"]}`, 400, "code", "together"},
		{"too much code", python(strings.Repeat("#", 11<<20)), 413, "code", "over the limit"},
		{"too large a body", python(strings.Repeat("#", 21<<20)), 413, "", "over the limit"},
		{"too many files", with("files", slices.Repeat([]object{{"path": "a", "content": ""}}, 10_001)), 413, "files",
			"more than 10000"},
		{"a file without content", with("files", []object{{"path": "a"}}), 400, "files[0]", "exactly one of"},
		{"two stdins", jsonOf(object{"language": "bash", "code": "true", "stdin": "a", "stdin_base64": "YQ=="}), 400,
			"stdin", "either stdin or"},
		{"a network", with("network", object{"mode": "moon"}), 400, "network.mode", "not one of none, restricted, full"},
		{"no connections", with("network", object{"mode": "full", "max_connections": 0}), 400,
			"network.max_connections", "must be from 1 to 65535"},
		{"too many connections", with("network", object{"mode": "full", "max_connections": 65536}), 400,
			"network.max_connections", "must be from 1 to 65535"},
		{"names to allow", with("network", object{"allow": []string{"example.org"}}), 422, "",
			"networks cannot be opened here"},
		{"names to deny alone", with("network", object{"deny": []string{"example.org"}}), 400, "network",
			"need mode restricted or full"},
		{"packages", with("packages", "auto"), 400, "packages", "expected a list, got a string"},
		{"checks", with("checks", "enforced"), 400, "checks", "off, warn, enforce"},
		{"a section that is none", with("include", []string{"findngs"}), 400, "include[0]", "not one of"},
		{"a mode that is none", with("files", []object{{"path": "a", "content": "", "mode": "4755"}}), 400, "files[0].mode",
			"octal"},
		{"an unknown backend", with("backend", "--privileged"), 400, "backend", "not one of"},
		{"a variable with a dash", with("env", object{"A-B": "c"}), 400, "env", "not a name"},
		{"a variable with '='", with("env", object{"A=B": "c"}), 400, "env", ""},
		{"an empty variable", with("env", object{"": "c"}), 400, "env", "not a name"},
		{"our own variable", with("env", object{"FUMEHOOD_EXECUTION": "c"}), 400, "env", "reserved"},
		{"mounts", with("mounts", []object{{"source": "/var/run/docker.sock"}}), 400, "", "unknown field"},
		{"privileges", with("privileged", true), 400, "", "unknown field"},
		{"a user", with("user", "root"), 400, "", "unknown field"},
		{"an image", with("image", "--privileged"), 400, "image", "is not an image reference"},
		{"an id", with("id", "../../x"), 400, "", "unknown field"},
		{"a call back", with("callback_url", "http://169.254.169.254"), 400, "", "unknown field"},
		{"a file of another size", with("files", []object{{"path": "a", "content": "hi", "size": 3}}), 400, "files[0].size",
			"has 2 bytes"},
		{"a file of another content", with("files", []object{{"path": "a", "content": "hi", "size": 2,
			"sha256": strings.Repeat("0", 64)}}), 400, "files[0].sha256", "not that of the content"},
		{"a path up", file("../../etc/cron.d/x"), 400, "files[0].path", "leaves"},
		{"a path up and down", file("a/../../b"), 400, "files[0].path", "leaves"},
		{"an absolute path", file("/abs"), 400, "files[0].path", "absolute"},
		{"a NUL in a path", file("a\x00b"), 400, "files[0].path", "NUL"},
		{"a path that is here", file("."), 400, "files[0].path", "clean"},
		{"an empty path", file(""), 400, "files[0].path", "empty"},
		{"a long path", file(strings.Repeat("a/", 5000) + "a"), 400, "files[0].path", "longer"},
		{"a path that ends in a slash", file("a/"), 400, "files[0].path", "slash"},
		{"the code's own name", file("main.sh"), 400, "files", "code's file"},
		{"a file twice", with("files", []object{{"path": "a", "content": ""}, {"path": "a", "content": ""}}), 400, "files",
			"twice"},
		{"metadata without end", with("metadata", object{"a": strings.Repeat("x", 9999)}), 400, "metadata", "at most"},
	} {
		t.Run(c.name, func(t *testing.T) {
			r := *r
			r.t = t
			p := r.refused("POST", "/v1/run", c.body, nil, c.status)
			if c.op != "" && p.Param != c.op || !strings.Contains(p.Detail, c.want) {
				t.Errorf("got %q at %q, want %q at %q", p.Detail, p.Param, c.want, c.op)
			}
			noHostTraces(t, p.Detail+p.Hint)
		})
	}
	if n := r.engine.Stats().Ended; len(n) != 0 {
		t.Errorf("something ran: %v", n)
	}
}

// Code can import each module that a language lists.
func TestLanguages(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	res, text := r.do("GET", "/v1/languages", "", nil)
	modules := map[string]string{}
	for _, l := range parse[api.Languages](t, text).Languages {
		if l.Version == nil || l.Error != "" {
			t.Errorf("%s: %s", l.Name, l.Error)
			continue
		}
		for _, m := range l.Modules {
			modules[l.Name] += m.Name + " "
		}
		modules[l.Name] += *l.Version
	}
	if res.StatusCode != 200 || !strings.Contains(modules["bash"], " cat ") {
		t.Fatal(res.Status, modules)
	}
	for _, code := range []object{
		{"language": "python", "code": "import platform, sys\nfrom importlib.util import find_spec\nfor m in sys.argv[1:-1]: find_spec(m) or print(m)\nprint(platform.python_version())"},
		{"language": "bash", "code": `for m in "${@:1:$#-1}"; do type -P "$m" >/dev/null || echo "$m"; done; echo "${BASH_VERSION%%[^0-9.]*}"`},
	} {
		args := strings.Fields(modules[code["language"].(string)])
		code["args"] = args
		if a := r.run(jsonOf(code)); strings.TrimSpace(a.Stdout) != args[len(args)-1] {
			t.Errorf("%s%s", a.Stdout, a.Stderr)
		}
	}
	before := r.engine.Stats().Ended[sandbox.StatusSucceeded]
	if _, again := r.do("GET", "/v1/languages", "", nil); again != text ||
		r.engine.Stats().Ended[sandbox.StatusSucceeded] != before {
		t.Error("it is looked for again")
	}
}

// S05: texts for clients have no path of the host and no stack.
func noHostTraces(t *testing.T, text string) {
	t.Helper()
	for _, trace := range []string{"/tmp/", "/root", "/var/", "goroutine", ".go:", "0x"} {
		if strings.Contains(text, trace) {
			t.Errorf("%q tells of the host: %s", text, trace)
		}
	}
}

// A01: spellings that only look like escapes are plain names.
func TestOddPathsStayInside(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	odd := []string{"..%2f..%2fa", "%2e%2e", "....", `C:\\x`, "%c0%ae", "\u202eb", "a%00b", "-rf"}
	var files []object
	for _, path := range odd {
		files = append(files, object{"path": path, "content": path})
	}
	a := r.run(jsonOf(object{"language": "bash", "code": "shopt -s dotglob; for f in *; do cp -- \"$f\" \"out-$f\"; done", "files": files, "return_files": []string{"out-*"}}))
	got := map[string]string{}
	for _, f := range a.Files {
		got[f.Path] = *f.Content
	}
	for _, path := range odd {
		if got["out-"+path] != path {
			t.Errorf("%q: %q", path, got["out-"+path])
		}
	}
}

func TestExecute(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	_, text := r.do("POST", "/execute", `{"code":"import sys\nopen('a.txt','w').write('x')\nprint(1)\nprint(2,file=sys.stderr)"}`, nil)
	got := parse[object](t, text)
	if got["success"] != true || got["output"] != "1\n2\n" || got["error"] != nil ||
		got["files"].(object)["a.txt"] != "eA==" || len(got["files"].(object)) != 1 {
		t.Errorf("%s", text)
	}
	_, text = r.do("POST", "/execute", `{"code":"1/0"}`, nil)
	if got := parse[object](t, text); got["success"] != false || got["error"] != "ZeroDivisionError: division by zero" {
		t.Errorf("%s", text)
	}
	_, text = r.do("POST", "/execute", `{"code":"exit 3","language":"bash"}`, nil)
	if got := parse[object](t, text); got["success"] != false || !strings.Contains(got["error"].(string), "exit code 3") {
		t.Errorf("%s", text)
	}
	for code, want := range map[string]string{
		"print(1, end='')\nimport os; os.mkfifo('p')": "1\n[1 file was not returned: ",
		"import no_such_module":                       "[The module no_such_module is not installed",
		"1/0":                                         "ZeroDivisionError: division by zero\n",
	} {
		_, text = r.do("POST", "/execute", jsonOf(object{"code": code}), nil)
		output := parse[object](t, text)["output"].(string)
		if !strings.Contains(output, want) || strings.Contains(output, "see stderr") {
			t.Errorf("%s: %q", code, output)
		}
	}
	r.refused("POST", "/execute", `{"language":"bash"}`, nil, 400)
	r.refused("POST", "/execute", `{"code":null}`, nil, 400)
}

func TestPathsAndMethods(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	for _, c := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/", 404}, {"GET", "/v1", 404}, {"POST", "//v1/run", 404}, {"GET", "/v1/../healthz", 404}, {"GET",
			"/v1/run", 405},
		{"DELETE", "/v1/run", 405}, {"OPTIONS", "/v1/run", 405}, {"POST", "/metrics", 405}, {"GET", "/v1/run/",
			404}, {"TRACE", "/healthz", 405},
	} {
		r.refused(c.method, c.path, "", nil, c.status)
	}
	res, _ := r.do("GET", "/v1/run", "", nil)
	if got := res.Header.Get("Allow"); got != http.MethodPost {
		t.Errorf("Allow: %q", got)
	}
	for _, path := range []string{"/healthz", "/readyz", "/v1/capabilities", "/v1/languages", "/metrics",
		"/openapi.json"} {
		if res, text := r.do("GET", path, "", nil); res.StatusCode != 200 {
			t.Errorf("GET %s: %s %s", path, res.Status, text)
		}
	}
}

// Every limit that an answer shows can be asked for, by the same name.
func TestEveryLimitCanBeAskedFor(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	a := r.run(jsonOf(object{"language": "bash", "code": "ulimit -n", "limits": object{"inodes": 1000, "open_files": 64}}))
	if l := a.Policy.Effective.Limits; a.Stdout != "64\n" || l.Inodes == nil || *l.Inodes != 1000 || l.OpenFiles == nil ||
		*l.OpenFiles != 64 {
		t.Errorf("%s %q %+v", a.Status, a.Stdout, l)
	}
	if want := []sandbox.LimitName{sandbox.LimitInodes, sandbox.LimitOpenFiles}; !slices.Equal(a.Policy.Requested.Named,
		want) {
		t.Errorf("named %v", a.Policy.Requested.Named)
	}
}
