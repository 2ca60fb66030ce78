package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/cgi"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress/egresstest"
)

// useNetwork uses the network with ordinary programs, without settings for a gate. Only the repositories have test
// names.
const useNetwork = `
cd /tmp
try() { name=$1 want=$2; shift 2; out=$("$@" 2>&1); case "$out" in *"$want"*) echo "$name ok";; *) echo "$name: $out" | tail -n 6;; esac; }
py() { /usr/bin/python3 -c "$1"; }
try curl 'web.test /x' curl -sS https://web.test/x
try curl-http 'web.test /x' curl -sS http://web.test/x
try urllib 'web.test /x' py 'import urllib.request as u; print(u.urlopen("https://web.test/x").read())'
try requests '3 web.test /x' py 'import requests
s = requests.Session()
print(sum("web.test /x" in s.get("https://web.test/x").text for i in range(3)), s.post("http://web.test/x", data="a" * 100000).text)'
try aiohttp '20 web.test /x' py 'import aiohttp, asyncio
async def main():
    async with aiohttp.ClientSession() as s:
        async def get():
            async with s.get("https://web.test/x") as r: return await r.text()
        texts = await asyncio.gather(*[get() for i in range(20)])
        print(len(texts), texts[-1])
asyncio.run(main())'
try fetch '20 web.test /x' node -e 'Promise.all([...Array(20)].map(() => fetch("https://web.test/x").then(r => r.text()))).then(t => console.log(t.length, t[0]), e => console.log(e, e.cause))'
fetched() { git clone -q https://git.test/repo.git repo && cat repo/README && echo more >> repo/README && git -C repo -c user.name=a -c user.email=a@b commit -qam more && git -C repo push -q origin HEAD 2>&1 && git -C repo ls-remote origin | wc -l; }
try git 'from the gate' fetched
pip() { /usr/bin/python3 -m pip install -q --disable-pip-version-check --target /tmp/packages --index-url https://pip.test/simple gatewheel && PYTHONPATH=/tmp/packages py 'import gatewheel'; }
try pip 'from the wheel' pip
npmi() { npm install --prefix /tmp/npm --no-audit --no-fund --no-update-notifier --registry https://npm.test/ gatebox && node -e 'require("/tmp/npm/node_modules/gatebox")'; }
try npm 'from the box' npmi
apt() {
    mkdir -p apt/etc/apt apt/var/lib/apt/lists/partial apt/var/cache/apt/archives/partial apt/var/lib/dpkg && : > apt/var/lib/dpkg/status &&
    echo 'deb [trusted=yes] https://apt.test/ ./' > apt/etc/apt/sources.list &&
    apt-get -q -o Dir=/tmp/apt -o Dir::State::status=/tmp/apt/var/lib/dpkg/status -o APT::Sandbox::User= update && apt-get -q -o Dir=/tmp/apt -o Dir::State::status=/tmp/apt/var/lib/dpkg/status -o APT::Sandbox::User= download gatedeb && dpkg-deb -f gatedeb_1.0_all.deb Description
}
try apt 'from the repository' apt
`

// repositories serves the content that the programs fetch.
type repositories struct {
	t   *testing.T
	dir string // of git
	mux http.ServeMux
}

func newRepositories(t *testing.T) *repositories {
	r := &repositories{t: t, dir: t.TempDir()}
	r.mux.HandleFunc("web.test/", func(w http.ResponseWriter, q *http.Request) {
		fmt.Fprint(w, q.Host, " ",
			q.URL.Path)
	})
	r.pip()
	r.npm()
	r.apt()
	r.git()
	return r
}

func (r *repositories) serve(pattern, kind string, content []byte) {
	r.mux.HandleFunc(pattern, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set("Content-Type", kind)
		_, _ = w.Write(content)
	})
}

// pip serves a simple index (PEP 503) of one wheel (PEP 427).
func (r *repositories) pip() {
	const name = "gatewheel-1.0-py3-none-any.whl"
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	for _, f := range [][2]string{
		{"gatewheel.py", "print('from the wheel')\n"},
		{"gatewheel-1.0.dist-info/METADATA", "Metadata-Version: 2.1\nName: gatewheel\nVersion: 1.0\n"},
		{"gatewheel-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{"gatewheel-1.0.dist-info/RECORD", "gatewheel.py,,\ngatewheel-1.0.dist-info/METADATA,,\ngatewheel-1.0.dist-info/WHEEL,,\ngatewheel-1.0.dist-info/RECORD,,\n"},
	} {
		w, err := z.Create(f[0])
		if err == nil {
			_, err = w.Write([]byte(f[1]))
		}
		if err != nil {
			r.t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		r.t.Fatal(err)
	}
	r.serve("pip.test/simple/gatewheel/", "text/html", fmt.Appendf(nil, `<a href="/files/%s#sha256=%x">%[1]s</a>`, name,
		sha256.Sum256(b.Bytes())))
	r.serve("pip.test/files/"+name, "application/octet-stream", b.Bytes())
}

// npm serves a registry of one package.
func (r *repositories) npm() {
	manifest := map[string]any{"name": "gatebox", "version": "1.0.0", "main": "index.js"}
	text, _ := json.Marshal(manifest)
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for name, content := range map[string]string{"package/package.json": string(text),
		"package/index.js": "console.log('from the box')\n"} {
		if err := w.WriteHeader(&tar.Header{Name: name, Mode: 0o644, Size: int64(len(content))}); err != nil {
			r.t.Fatal(err)
		}
		_, _ = w.Write([]byte(content))
	}
	if err := w.Close(); err != nil {
		r.t.Fatal(err)
	}
	g.Close()
	sum := sha512.Sum512(b.Bytes())
	manifest["dist"] = map[string]string{"tarball": "https://npm.test/files/gatebox.tgz", "integrity": "sha512-" +
		base64.StdEncoding.EncodeToString(sum[:])}
	list, _ := json.Marshal(map[string]any{"name": "gatebox", "dist-tags": map[string]string{"latest": "1.0.0"},
		"versions": map[string]any{"1.0.0": manifest}})
	r.serve("npm.test/gatebox", "application/json", list)
	r.serve("npm.test/files/gatebox.tgz", "application/octet-stream", b.Bytes())
}

// apt serves a repository of one package, without a signature.
func (r *repositories) apt() {
	dir := r.t.TempDir()
	control := "Package: gatedeb\nVersion: 1.0\nArchitecture: all\nMaintainer: Nobody <nobody@example.org>\nDescription: from the repository\n"
	deb := filepath.Join(r.t.TempDir(), "gatedeb_1.0_all.deb")
	if err := os.Mkdir(filepath.Join(dir, "DEBIAN"), 0o755); err != nil {
		r.t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "DEBIAN", "control"), []byte(control), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.command("dpkg-deb", "--root-owner-group", "-b", dir, deb)
	content, err := os.ReadFile(deb)
	if err != nil {
		r.t.Fatal(err)
	}
	r.serve("apt.test/gatedeb_1.0_all.deb", "application/octet-stream", content)
	packages := fmt.Appendf([]byte(control), "Filename: ./gatedeb_1.0_all.deb\nSize: %d\nSHA256: %x\n", len(content),
		sha256.Sum256(content))
	r.serve("apt.test/Packages", "text/plain", packages)
	r.serve("apt.test/Release", "text/plain", fmt.Appendf(nil,
		"Date: Thu, 01 Jan 2026 00:00:00 UTC\nSHA256:\n %x %d Packages\n", sha256.Sum256(packages), len(packages)))
}

// git serves one repository that may be pushed to.
func (r *repositories) git() {
	at := filepath.Join(r.dir, "repo.git")
	work := r.t.TempDir()
	r.command("git", "init", "-q", "--bare", at)
	r.command("git", "-C", at, "config", "http.receivepack", "true")
	r.command("git", "clone", "-q", at, work)
	if err := os.WriteFile(filepath.Join(work, "README"), []byte("from the gate\n"), 0o644); err != nil {
		r.t.Fatal(err)
	}
	r.command("git", "-C", work, "add", "README")
	r.command("git", "-C", work, "-c", "user.name=a", "-c", "user.email=a@b", "commit", "-qm", "first")
	r.command("git", "-C", work, "push", "-q", "origin", "HEAD")
	out, err := exec.Command("git", "--exec-path").Output()
	if err != nil {
		r.t.Fatal(err)
	}
	r.mux.Handle("git.test/", &cgi.Handler{Path: filepath.Join(strings.TrimSpace(string(out)), "git-http-backend"),
		Env: []string{"GIT_PROJECT_ROOT=" + r.dir, "GIT_HTTP_EXPORT_ALL=1"}, Stderr: r.t.Output()})
}

func (r *repositories) command(name string, args ...string) {
	r.t.Helper()
	if out, err := exec.Command(name, args...).CombinedOutput(); err != nil {
		r.t.Fatalf("%s %q: %v\n%s", name, args, err, out)
	}
}

// TestNetworkTools: common programs work through the gate without settings, with TLS inspection and without. Node has
// its own certificates, so the test adds the authority of its internet.
func TestNetworkTools(t *testing.T) {
	if testing.Short() {
		t.Skip("npm, pip and apt take half a minute")
	}
	if !egresstest.Inside(t) {
		return
	}
	isNetworkReady(t)
	for _, program := range []string{"curl", "git", "node", "npm", "dpkg-deb"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip(err)
		}
	}
	w := egresstest.New(t)
	w.Web(&newRepositories(t).mux)
	for i, name := range []string{"web.test", "git.test", "pip.test", "npm.test", "apt.test"} {
		w.Name(name, fmt.Sprintf("93.184.216.%d 2606:2800:220:1::%d", 40+i, i))
	}
	const all = "curl ok\ncurl-http ok\nurllib ok\nrequests ok\naiohttp ok\nfetch ok\ngit ok\npip ok\nnpm ok\napt ok\n"
	for _, backend := range []string{"native", "gvisor", "docker", "podman"} {
		for name, flags := range map[string][]string{"passed on": {"--env",
			"NODE_EXTRA_CA_CERTS=/etc/ssl/certs/ca-certificates.crt"}, "read": {"--inspect", "*.test"}} {
			t.Run(backend+" "+name, func(t *testing.T) {
				var out, errs bytes.Buffer
				m := testApp(t).Main
				m.Stdout, m.Stderr = &out, &errs
				if name == "passed on" && engineVariables[backend] != "" {
					t.Skip("the store of an image does not have the authority of the test's internet")
				}
				args := append(onBackend(t, &m, backend), "--allow", "*.test", "--timeout", "5m", "--pids", "1000",
					"--memory",
					"1GiB")
				code := m.Run(t.Context(), append(append(append([]string{"run"}, args...), flags...), "-l", "bash",
					"-c",
					useNetwork))
				if code != 0 || out.String() != all {
					t.Errorf("exit code %d\n%s\n%s", code, &out, &errs)
				}
			})
		}
	}
}
