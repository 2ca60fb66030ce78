package main

import (
	"archive/zip"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io/fs"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// muslProgram prints its user, as a C library other than glibc finds it.
const muslProgram = `#include <pwd.h>
#include <stdio.h>
#include <unistd.h>
int main(void) { struct passwd *p = getpwuid(getuid()); return printf("%d %s\n", getuid(), p ? p->pw_name : "?") < 0; }
`

// addMusl adds a program that needs musl, and musl, to a root. It reports whether this host has a compiler for it.
func addMusl(t *testing.T, root string) bool {
	t.Helper()
	if _, err := exec.LookPath("musl-gcc"); err != nil {
		return false
	}
	compile := exec.Command("musl-gcc", "-x", "c", "-o", root+"/musl", "-")
	compile.Stdin = strings.NewReader(muslProgram)
	if out, err := compile.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	loaders, err := filepath.Glob("/lib/ld-musl-*")
	if err != nil || len(loaders) != 1 {
		t.Fatalf("%q, %v", loaders, err)
	}
	if out, err := exec.Command("cp", "-L", "--parents", loaders[0], root).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return true
}

// makeStatic makes a root with a static program, the same for root alone, and a secret.
func makeStatic(t *testing.T, root, at string) {
	t.Helper()
	build := exec.Command("go", "build", "-o", root+at, "./testdata/static")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program, err := os.ReadFile(root + at)
	if err != nil {
		t.Fatal(err)
	}
	for file, mode := range map[string]os.FileMode{"secret": 0o600, "mine": 0o700, "private" + at: 0o755} {
		if err := os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(root, file), program, mode); err != nil {
			t.Fatal(err)
		}
	}
}

// TestStaticImage: an image with one static program runs it, starts with it as a server, and reports what it lacks
// or what only root may execute. Programs of an image may need another C library.
func TestStaticImage(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can build templates")
	}
	const at = "/static"
	root, rooted := t.TempDir(), t.TempDir()
	makeStatic(t, root, at)
	musl := addMusl(t, root)
	if err := os.WriteFile(filepath.Join(rooted, "Dockerfile"), []byte("FROM static\nUSER root\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	a := testApp(t)
	m := &a.Main
	run := func(args ...string) (code int, stdout, stderr string) {
		var out, errs bytes.Buffer
		m.Stdout, m.Stderr = &out, &errs
		code = m.Run(t.Context(), args)
		return code, out.String(), errs.String()
	}
	for _, args := range [][]string{{"image", "import", root, "--name", "static"},
		{"template", "build", "rooted", rooted},
		{"template", "build", "server", "--from", "static", "--start", `["` + at + `", "serve"]`, "--ready", "8080"},
		{"template", "build", "broken", "--from", "static", "--start", "server", "--ready", "8080"}} {
		if code, _, stderr := run(args...); code != 0 {
			t.Fatalf("%q: %s", args, stderr)
		}
	}
	if _, stdout, stderr := run("languages", "--image", "static"); !strings.Contains(stdout, "command not found") {
		t.Errorf("languages: %q, %q", stdout, stderr)
	}
	backends := []string{"native"}
	if !testing.Short() {
		backends = append(backends, "gvisor")
	}
	for _, backend := range backends {
		for _, c := range []struct {
			args   []string
			code   int
			stdout string
			says   string
		}{
			{[]string{"static", "--", at, "id"}, 0, "1000 1000 open /secret: permission denied\n", ""},
			{[]string{"server", "--", at, "get"}, 0, "hello\n", ""},
			{[]string{"rooted", "--", at, "id"}, 0, "1000 1000 open /secret: permission denied\n", ""},
			{[]string{"static", "--", "/mine", "id"}, 127, "", "/mine: cannot execute: permission denied"},
			{[]string{"static", "--", "/private" + at, "id"}, 127, "", "permission denied"},
			{[]string{"static", "--", "/musl"}, 0, "1000 agent\n", ""},
			{[]string{"static", "-c", "print(1)"}, 125, "", "choose another image"},
			{[]string{"static", "--", "ls"}, 127, "", "ls: command not found"},
			{[]string{"broken", "--", at, "id"}, 125, "", "cannot run: guest: start: execute /bin/sh: the program"},
		} {
			if c.args[len(c.args)-1] == "/musl" && !musl {
				t.Log("NOT TESTED: musl, as there is no musl-gcc")
				continue
			}
			args := append([]string{"run", "--backend", backend, "--allow-unenforced", "memory", "--image"}, c.args...)
			if code, stdout, stderr := run(args...); code != c.code || stdout != c.stdout ||
				!strings.Contains(stderr, c.says) {
				t.Errorf("%q: exit code %d, %q, %q", args, code, stdout, stderr)
			}
		}
	}
}

// debianTemplate installs from an index of packages and from a wheel, and prepares files.
const debianTemplate = `FROM base
ARG INDEX
ENV GREETING="hello from the image"
COPY packages/ /opt/packages/
RUN rm -rf /etc/apt/sources.list /etc/apt/sources.list.d && \
    echo "deb [trusted=yes] http://$INDEX ./" > /etc/apt/sources.list && \
    apt-get update && apt-get install -y --no-install-recommends fumehood-hello && rm -rf /var/lib/apt/lists/*
RUN python3 -m pip install --no-index --break-system-packages /opt/packages/*.whl
RUN useradd --uid 1234 worker && install -d -o worker -m 0750 /srv/own && echo mine > /srv/own/file
WORKDIR /srv
USER worker
`

// seen prints what code of a sandbox sees of the image.
const seen = `id -u; pwd; echo $GREETING; fumehood-hello; dpkg-query -W -f '${Version}\n' fumehood-hello
python3 -c 'import fumehood_wheel; print(fumehood_wheel.value)'; cat /srv/own/file
stat -c '%a %n' /srv/own /tmp /usr/bin/fumehood-hello; touch /srv/own/x 2>/dev/null || echo read-only`

const wantSeen = `1234
/srv
hello from the image
hello of a package
1.2
42
mine
`

// TestTemplateEverywhere: a base image with install lines, built once, gives the same outcome on every backend. The
// base is an image of Docker, and the engines load the template once.
func TestTemplateEverywhere(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: it needs engines")
	}
	if os.Geteuid() != 0 {
		t.Skip("only root can build templates")
	}
	a := testApp(t)
	m := &a.Main
	for _, engine := range []string{"docker", "podman"} {
		onBackend(t, m, engine)
	}
	var out bytes.Buffer
	must := func(args ...string) string {
		t.Helper()
		out.Reset()
		m.Stdout = &out
		if code := m.Run(t.Context(), args); code != 0 {
			t.Fatalf("%q: exit code %d, %s", args, code, out.String())
		}
		return out.String()
	}
	dir := t.TempDir()
	packages := filepath.Join(dir, "packages")
	makePackages(t, packages)
	index := httptest.NewServer(http.FileServer(http.Dir(packages)))
	defer index.Close()
	_, port, _ := strings.Cut(strings.TrimPrefix(index.URL, "http://"), ":")
	if err := os.WriteFile(filepath.Join(dir, "Dockerfile"), []byte(debianTemplate), 0o600); err != nil {
		t.Fatal(err)
	}
	must("image", "import", "docker:"+backendtest.EngineImage, "--name", "base")
	host := "host:" + port
	for name, backend := range map[string]string{"everywhere": "gvisor", "native": "native"} {
		must("template", "build", name, dir, "--build-arg", "INDEX="+host, "--allow", host, "--backend", backend,
			"--no-cache")
	}
	store, err := a.backendOptions().OpenImages()
	if err != nil {
		t.Fatal(err)
	}
	gvisor, native := listImage(t, store, "everywhere"), listImage(t, store, "native")
	for name, entry := range gvisor {
		if native[name] != entry {
			t.Errorf("built on gvisor: %s %s; on native: %q", name, entry, native[name])
		}
	}
	if len(gvisor) != len(native) {
		t.Errorf("%d entries built on gvisor, %d on native", len(gvisor), len(native))
	}
	first := ""
	for _, backend := range []string{"native", "gvisor", "docker", "podman"} {
		got := must("run", "--backend", backend, "--image", "everywhere", "--allow-unenforced", "inodes",
			"--", "sh", "-c", seen)
		if !strings.HasPrefix(got, wantSeen) || !strings.Contains(got, "read-only") {
			t.Errorf("%s: %q", backend, got)
		}
		if first == "" {
			first = got
		}
		if got != first {
			t.Errorf("%s:\n%s\nand on native:\n%s", backend, got, first)
		}
	}
	var said bytes.Buffer
	m.Stderr = &said
	must("run", "--backend", "docker", "--image", "everywhere", "--", "true")
	if strings.Contains(said.String(), "loading") {
		t.Errorf("loaded again: %s", said.String())
	}
}

// written are files whose content has the time of their making.
var written = regexp.MustCompile(`^var/(log/|cache/(apt|ldconfig)/)|\.pyc$|^etc/shadow-?$|^var/lib/dpkg/.*-old$`)

// listImage returns the entries of an image by name: mode, target of a link, and digest of the content.
func listImage(t *testing.T, store *image.Store, name string) map[string]string {
	t.Helper()
	i, err := store.Find(name)
	if err != nil {
		t.Fatal(err)
	}
	root, list := store.Files(i.Tree), map[string]string{}
	err = filepath.WalkDir(root, func(file string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(root, file)
		if err != nil {
			return err
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		list[name] = info.Mode().String()
		switch {
		case e.Type()&fs.ModeSymlink != 0:
			target, err := os.Readlink(file)
			list[name] += " " + target
			return err
		case e.Type().IsRegular() && !written.MatchString(name):
			content, err := os.ReadFile(file)
			list[name] += fmt.Sprintf(" %x", sha256.Sum256(content))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// makePackages makes a Debian package with its index, and a wheel.
func makePackages(t *testing.T, dir string) {
	t.Helper()
	root := filepath.Join(t.TempDir(), "deb")
	for name, text := range map[string]string{
		"DEBIAN/control": "Package: fumehood-hello\nVersion: 1.2\nArchitecture: all\nMaintainer: a <a@example.org>\n" +
			"Description: says hello\n",
		"usr/bin/fumehood-hello": "#!/bin/sh\necho hello of a package\n",
	} {
		file := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(file), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(file, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "hello.deb")
	if text, err := exec.Command("dpkg-deb", "--root-owner-group", "--build", root, file).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(content)
	index := fmt.Sprintf("Package: fumehood-hello\nVersion: 1.2\nArchitecture: all\nMaintainer: a <a@example.org>\n"+
		"Description: says hello\nFilename: ./hello.deb\nSize: %d\nSHA256: %s\n", len(content),
		hex.EncodeToString(sum[:]))
	if err := os.WriteFile(filepath.Join(dir, "Packages"), []byte(index), 0o644); err != nil {
		t.Fatal(err)
	}
	var wheel bytes.Buffer
	w := zip.NewWriter(&wheel)
	for name, text := range map[string]string{
		"fumehood_wheel.py":                     "value = 42\n",
		"fumehood_wheel-1.0.dist-info/METADATA": "Metadata-Version: 2.1\nName: fumehood-wheel\nVersion: 1.0\n",
		"fumehood_wheel-1.0.dist-info/WHEEL": "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\n" +
			"Tag: py3-none-any\n",
		"fumehood_wheel-1.0.dist-info/RECORD": "fumehood_wheel.py,,\nfumehood_wheel-1.0.dist-info/METADATA,,\n" +
			"fumehood_wheel-1.0.dist-info/WHEEL,,\nfumehood_wheel-1.0.dist-info/RECORD,,\n",
	} {
		f, err := w.Create(name)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := f.Write([]byte(text)); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	file = filepath.Join(dir, "fumehood_wheel-1.0-py3-none-any.whl")
	if err := os.WriteFile(file, wheel.Bytes(), 0o644); err != nil {
		t.Fatal(err)
	}
}
