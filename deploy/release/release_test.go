package main

import (
	"archive/tar"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"aead.dev/minisign"
	cyclonedx "github.com/CycloneDX/cyclonedx-go"
)

const target = "linux/" + runtime.GOARCH

// laidOut returns a release whose only program is this test's, and which the file key signs.
func laidOut(t *testing.T, key string) *release {
	t.Helper()
	dir := t.TempDir()
	r := &release{version: "v1.2.3", commit: strings.Repeat("a", 40), time: time.Unix(1700000000, 0).UTC(),
		source: filepath.Join(dir, "source"), programs: filepath.Join(dir, "programs"), pages: filepath.Join(dir, "pages"),
		out: filepath.Join(dir, "out"), goroot: runtime.GOROOT(), url: "file://" + filepath.Join(dir, "out")}
	modules, err := exec.Command("go", "env", "GOMODCACHE").Output()
	if err != nil {
		t.Fatal(err)
	}
	r.modules = strings.TrimSpace(string(modules))
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"guest", "runsc", "typescript"} {
		put(t, r, self, filepath.Join(r.source, "internal/libexec/bin", "fumehood-"+name+"-linux-"+runtime.GOARCH))
	}
	put(t, r, self, r.program("linux", runtime.GOARCH))
	for _, name := range []string{"LICENSE", "README.md", "SECURITY.md", "CHANGELOG.md",
		"internal/dashboard/dist/licenses.txt"} {
		put(t, r, filepath.Join("../..", name), filepath.Join(r.source, name))
	}
	for _, name := range []string{"fumehood.bash", "_fumehood", "fumehood.fish", "man/fumehood.1"} {
		put(t, r, "main.go", filepath.Join(r.pages, name))
	}
	if err := r.openKey(key); err != nil {
		t.Fatal(err)
	}
	return r
}

func put(t *testing.T, r *release, from, to string) {
	t.Helper()
	if err := r.copy(from, to, 0o755); err != nil {
		t.Fatal(err)
	}
}

// newKey writes an encrypted key into a file, and sets its password.
func newKey(t *testing.T) string {
	t.Helper()
	const password = "a password of this test"
	_, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	text, err := minisign.EncryptKey(password, private)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RELEASE_KEY_PASSWORD", password)
	return file
}

// made makes the release, from the folder of nfpm.yaml.
func made(t *testing.T, r *release) {
	t.Helper()
	t.Chdir("..")
	if err := r.make([]string{target}); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, path string) []byte {
	t.Helper()
	content, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return content
}

// TestRelease makes a release twice, at two places: all bytes are equal, and the signature, the list of components and
// the provenance are about them.
func TestRelease(t *testing.T) {
	key := newKey(t)
	a, b := laidOut(t, key), laidOut(t, key)
	b.url = a.url
	made(t, a)
	if err := b.make([]string{target}); err != nil {
		t.Fatal(err)
	}
	sums, names, err := a.digests()
	if err != nil {
		t.Fatal(err)
	}
	others, _, err := b.digests()
	for _, name := range names {
		if err != nil || sums[name] != others[name] {
			t.Errorf("the second %s differs (%v)", name, err)
		}
	}
	list := read(t, filepath.Join(a.out, sumsName))
	public := a.key.Public().(minisign.PublicKey)
	if !minisign.Verify(public, list, read(t, filepath.Join(a.out, sumsName+".minisig"))) {
		t.Error("the signature is wrong")
	}
	var provenance statement
	if err := json.Unmarshal(read(t, filepath.Join(a.out, provenanceName)), &provenance); err != nil {
		t.Fatal(err)
	}
	for _, s := range provenance.Subject {
		if sums[s.Name] != s.Digest["sha256"] || !strings.Contains(string(list), s.Digest["sha256"]+"  "+s.Name) {
			t.Errorf("the provenance of %s has another digest", s.Name)
		}
	}
	bill, err := os.Open(filepath.Join(a.out, "fumehood-v1.2.3-linux-"+runtime.GOARCH+".cdx.json"))
	if err != nil {
		t.Fatal(err)
	}
	defer bill.Close()
	var bom cyclonedx.BOM
	if err := cyclonedx.NewBOMDecoder(bill, cyclonedx.BOMFileFormatJSON).Decode(&bom); err != nil {
		t.Fatal(err)
	}
	if !slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool {
		return c.Name == "aead.dev/minisign" && c.Version == "v0.3.0" && len(*c.Hashes) == 1
	}) {
		t.Error("a module of the program is not in the list of components")
	}
	if names := packed(t, filepath.Join(a.out, "fumehood-v1.2.3-linux-"+runtime.GOARCH+".tar.gz")); !slices.Contains(names,
		"fumehood-v1.2.3-linux-"+runtime.GOARCH+"/share/doc/fumehood/third-party-licenses") {
		t.Errorf("the archive has %q", names)
	}
}

func packed(t *testing.T, archive string) (names []string) {
	t.Helper()
	f, err := os.Open(archive)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		t.Fatal(err)
	}
	for r := tar.NewReader(z); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return names
		}
		if err != nil {
			t.Fatal(err)
		}
		names = append(names, h.Name)
	}
}

// TestInstall: install.sh installs what SHA256SUMS lists, and nothing that was changed.
func TestInstall(t *testing.T) {
	r := laidOut(t, "")
	made(t, r)
	prefix := t.TempDir()
	install := func() (string, error) {
		cmd := exec.Command("sh", filepath.Join(r.out, "install.sh"))
		cmd.Env = append(os.Environ(), "PREFIX="+prefix)
		out, err := cmd.CombinedOutput()
		return string(out), err
	}
	if out, err := install(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	program := filepath.Join(prefix, "bin/fumehood")
	if string(read(t, program)) != string(read(t, r.program("linux", runtime.GOARCH))) {
		t.Error("another program was installed")
	}
	if err := os.Remove(program); err != nil {
		t.Fatal(err)
	}
	archive := filepath.Join(r.out, "fumehood-v1.2.3-linux-"+runtime.GOARCH+".tar.gz")
	content := read(t, archive)
	content[len(content)/2] ^= 1
	if err := os.WriteFile(archive, content, 0o644); err != nil {
		t.Fatal(err)
	}
	out, err := install()
	if _, there := os.Stat(program); err == nil || there == nil || !strings.Contains(out, "the digest of") {
		t.Errorf("a changed archive: %v: %s", err, out)
	}
}

func TestPackageVersion(t *testing.T) {
	for version, want := range map[string]string{
		"v1.2.3": "1.2.3", "v1.2.3-rc.1": "1.2.3-rc.1", "v1.2.3-4-gabcdef0": "1.2.3+4.gabcdef0",
		"v1.2.3-4-gabcdef0-dirty": "1.2.3+4.gabcdef0.dirty", "v1.2.3-dirty": "1.2.3+dirty",
		"abcdef0": "0.0.0-git.abcdef0", "abcdef0-dirty": "0.0.0-git.abcdef0.dirty",
	} {
		if got := packageVersion(version); got != want {
			t.Errorf("%s: %s, want %s", version, got, want)
		}
	}
}
