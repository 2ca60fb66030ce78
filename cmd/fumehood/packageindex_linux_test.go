package main

import (
	"archive/tar"
	"archive/zip"
	"bytes"
	"cmp"
	"compress/gzip"
	"context"
	"crypto/sha256"
	"crypto/sha512"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// index is an index of Python and npm packages that a test adds.
type index struct {
	t       *testing.T
	gate    sandbox.Gate
	url     string
	backend string                      // native where empty
	flags   []string                    // that name it
	env     []string                    // more variables of the program
	odd     map[string]http.HandlerFunc // of a path; set before anything is asked
	close   func()

	mu       sync.Mutex
	files    map[string][]byte // by path
	asked    map[string]int    // requests of each path
	password string            // that each request must have, if there is one
	strange  map[string]bool   // what came without it, or for another host
}

func newIndex(t *testing.T) *index {
	out := newOutside(t)
	out.address = "10.9.8.7" // a mirror within a company
	i := &index{t: t, gate: out.gate(), url: "http://index.test"}
	i.serve(out.Server)
	return i
}

// newLockedIndex returns an index that requires a password over HTTPS.
func newLockedIndex(t *testing.T, password string) *index {
	k := newKeeper(t)
	i := &index{t: t, gate: k.gate(), url: "https://example.com", password: password}
	i.serve(k.Server)
	return i
}

func (i *index) serve(s *httptest.Server) {
	i.files, i.asked, i.strange, i.odd = map[string][]byte{}, map[string]int{}, map[string]bool{},
		map[string]http.HandlerFunc{}
	i.flags = []string{"--package-index", "python=" + i.url + "/simple", "--package-index", "javascript=" + i.url + "/"}
	s.Config.Handler, i.close = i, s.Close
}

// ServeHTTP implements http.Handler.
func (i *index) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	i.mu.Lock()
	i.asked[r.URL.Path]++
	content, ok := i.files[r.URL.Path]
	odd := i.odd[r.URL.Path]
	_, password, _ := r.BasicAuth()
	denied := i.password != "" && password != i.password
	if denied || !strings.HasSuffix(i.url, "://"+r.Host) {
		i.strange[r.Host+r.URL.Path] = true
	}
	i.mu.Unlock()
	switch {
	case odd != nil:
		odd(w, r)
	case denied:
		w.Header().Set("WWW-Authenticate", "Basic")
		http.Error(w, "no", http.StatusUnauthorized)
	case !ok:
		http.NotFound(w, r)
	default:
		if strings.HasPrefix(r.URL.Path, "/simple/") {
			w.Header().Set("Content-Type", "text/html")
		}
		w.Write(content) // a client that is gone needs none
	}
}

// does sets the handler of a path.
func (i *index) does(path string, odd http.HandlerFunc) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.odd[path] = odd
}

// wants changes the password.
func (i *index) wants(password string) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.password = password
}

// isAlone checks that there were no other requests, and none without the password.
func (i *index) isAlone() {
	i.t.Helper()
	i.mu.Lock()
	defer i.mu.Unlock()
	if len(i.strange) > 0 {
		i.t.Errorf("it was asked for %v", i.strange)
	}
}

func (i *index) put(path string, content []byte) {
	i.mu.Lock()
	defer i.mu.Unlock()
	i.files[path] = content
}

func (i *index) downloads(part string) (n int) {
	i.mu.Lock()
	defer i.mu.Unlock()
	for path, times := range i.asked {
		if strings.HasPrefix(path, "/archives/") && strings.Contains(path, part) {
			n += times
		}
	}
	return n
}

// wheel adds a pure package of one module; hash "" is the correct one.
func (i *index) wheel(name, version, source, hash string, requires ...string) {
	var b bytes.Buffer
	z := zip.NewWriter(&b)
	info := name + "-" + version + ".dist-info/"
	meta := "Metadata-Version: 2.1\nName: " + name + "\nVersion: " + version + "\n"
	for _, r := range requires {
		meta += "Requires-Dist: " + r + "\n"
	}
	for _, f := range [][2]string{{name + "/__init__.py", source}, {info + "METADATA", meta},
		{info + "WHEEL", "Wheel-Version: 1.0\nGenerator: test\nRoot-Is-Purelib: true\nTag: py3-none-any\n"},
		{info + "RECORD", ""}} {
		w, err := z.Create(f[0])
		if err == nil {
			_, err = w.Write([]byte(f[1]))
		}
		if err != nil {
			i.t.Fatal(err)
		}
	}
	if err := z.Close(); err != nil {
		i.t.Fatal(err)
	}
	if hash == "" {
		sum := sha256.Sum256(b.Bytes())
		hash = hex.EncodeToString(sum[:])
	}
	file := fmt.Sprintf("/archives/%s-%s-py3-none-any.whl", name, version)
	i.put(file, b.Bytes())
	i.link(name, file+"#sha256="+hash)
}

// link adds an archive to a package's page.
func (i *index) link(name, address string) {
	page := "/simple/" + name + "/"
	i.mu.Lock()
	defer i.mu.Unlock()
	i.files[page] = append(i.files[page], fmt.Sprintf("<a href=%q>%s</a>\n", address,
		filepath.Base(strings.SplitN(address, "#", 2)[0]))...)
}

// targz is a compressed archive of files.
func (i *index) targz(files map[string]string) []byte {
	var b bytes.Buffer
	g := gzip.NewWriter(&b)
	w := tar.NewWriter(g)
	for file, text := range files {
		err := w.WriteHeader(&tar.Header{Name: file, Mode: 0o644, Size: int64(len(text))})
		if err == nil {
			_, err = w.Write([]byte(text))
		}
		if err != nil {
			i.t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		i.t.Fatal(err)
	}
	if err := g.Close(); err != nil {
		i.t.Fatal(err)
	}
	return b.Bytes()
}

// sdist adds a source package with its own build backend and no requirements.
func (i *index) sdist(name, backend string) {
	top := name + "-1.0/"
	content := i.targz(map[string]string{
		top + "PKG-INFO":       "Metadata-Version: 2.1\nName: " + name + "\nVersion: 1.0\n",
		top + "pyproject.toml": "[build-system]\nrequires = []\nbuild-backend = 'backend'\nbackend-path = ['.']\n",
		top + "backend.py":     backend,
	})
	file := "/archives/" + name + "-1.0.tar.gz"
	i.put(file, content)
	i.link(name, fmt.Sprintf("%s#sha256=%x", file, sha256.Sum256(content)))
}

// tarball adds a package of npm.
func (i *index) tarball(name, version, source string) {
	i.pack(name, version, map[string]string{"index.js": source}, nil)
}

// pack adds a package of npm with more files, and with scripts.
func (i *index) pack(name, version string, files, scripts map[string]string) {
	manifest := map[string]any{"name": name, "version": version, "main": "index.js", "scripts": scripts}
	text, err := json.Marshal(manifest)
	if err != nil {
		i.t.Fatal(err)
	}
	inside := map[string]string{"package/package.json": string(text)}
	for file, text := range files {
		inside["package/"+file] = text
	}
	content := i.targz(inside)
	manifest["hasInstallScript"] = len(scripts) > 0
	i.npm(manifest, content)
}

// npm adds an archive of a package of npm.
func (i *index) npm(manifest map[string]any, archive []byte) {
	name, version := manifest["name"].(string), manifest["version"].(string)
	file := fmt.Sprintf("/archives/%s-%s.tgz", name, version)
	i.put(file, archive)
	sum := sha512.Sum512(archive)
	manifest["dist"] = map[string]string{"tarball": i.url + file, "integrity": "sha512-" +
		base64.StdEncoding.EncodeToString(sum[:])}
	doc, err := json.Marshal(map[string]any{"name": name, "dist-tags": map[string]string{"latest": version},
		"versions": map[string]any{version: manifest}})
	if err != nil {
		i.t.Fatal(err)
	}
	i.put("/"+name, doc)
}

// run runs the program with this index and the given cache.
func (i *index) run(cache string, code int, args ...string) (stdout, stderr string) {
	i.t.Helper()
	var out, errs bytes.Buffer
	m := testApp(i.t).Main
	m.Stdout, m.Stderr, m.Gate = &out, &errs, i.gate
	m.Environ = func() []string { return append(os.Environ(), i.env...) }
	words := append([]string{args[0], "--package-cache", cache}, i.flags...)
	if args[0] == "deps" {
		words = append([]string{"deps", args[1]}, words[1:]...)
		args = args[1:]
	}
	if args[0] == "run" || args[0] == "lock" {
		words = append(words, onBackend(i.t, &m, cmp.Or(i.backend, "native"))...)
	}
	if got := m.Run(context.Background(), append(words, args[1:]...)); got != code {
		i.t.Errorf("%q: exit code %d, not %d\n%s%s", args, got, code, &out, &errs)
	}
	return out.String(), errs.String()
}
