package main

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path"
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

// minisignProgram is the program of every release of the tests: small, with modules, and it verifies signatures.
var minisignProgram string

func TestMain(m *testing.M) {
	dir, err := os.MkdirTemp("", "release-test-")
	if err == nil {
		minisignProgram = filepath.Join(dir, "minisign")
		cmd := exec.Command("go", "build", "-ldflags", "-s -w", "-o", minisignProgram, "aead.dev/minisign/cmd/minisign")
		cmd.Stderr = os.Stderr
		err = cmd.Run()
	}
	status := 1
	if err == nil {
		status = m.Run()
	} else {
		fmt.Fprintln(os.Stderr, "build minisign:", err)
	}
	_ = os.RemoveAll(dir)
	os.Exit(status)
}

// laidOut returns a release whose only program is minisign, and which the key signs.
func laidOut(t *testing.T, key *minisign.PrivateKey) *release {
	t.Helper()
	dir := t.TempDir()
	r := &release{version: "v1.2.3", commit: strings.Repeat("a", 40), time: time.Unix(1700000000, 0).UTC(),
		source: filepath.Join(dir, "source"), programs: filepath.Join(dir, "programs"), pages: filepath.Join(dir, "pages"),
		out: filepath.Join(dir, "out"), url: "file://" + filepath.Join(dir, "out"), key: key}
	folders, err := exec.Command("go", "env", "GOROOT", "GOMODCACHE").Output() // -trimpath leaves runtime.GOROOT empty
	if err != nil {
		t.Fatal(err)
	}
	r.goroot, r.modules, _ = strings.Cut(strings.TrimSpace(string(folders)), "\n")
	for _, name := range []string{"guest", "runsc", "typescript"} {
		file := "fumehood-" + name + "-linux-" + runtime.GOARCH
		put(t, r, minisignProgram, filepath.Join(r.source, "internal/libexec/bin", file))
	}
	put(t, r, minisignProgram, r.program("linux", runtime.GOARCH))
	for _, name := range []string{"LICENSE", "README.md", "SECURITY.md", "CHANGELOG.md",
		"internal/dashboard/dist/licenses.txt", "dashboard/package-lock.json"} {
		put(t, r, filepath.Join("../..", name), filepath.Join(r.source, name))
	}
	for _, name := range []string{"fumehood.bash", "_fumehood", "fumehood.fish", "man/fumehood.1"} {
		put(t, r, "main.go", filepath.Join(r.pages, name))
	}
	return r
}

func put(t *testing.T, r *release, from, to string) {
	t.Helper()
	if err := r.copy(from, to, 0o755); err != nil {
		t.Fatal(err)
	}
}

func newKey(t *testing.T) *minisign.PrivateKey {
	t.Helper()
	_, private, err := minisign.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	return &private
}

// TestKeyFile: the key of a release is read from an encrypted file.
func TestKeyFile(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: the encryption takes seconds, on purpose")
	}
	const password = "a password of this test"
	want := newKey(t)
	text, err := minisign.EncryptKey(password, *want)
	if err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(t.TempDir(), "key")
	if err := os.WriteFile(file, text, 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RELEASE_KEY_PASSWORD", password)
	var r release
	if err := r.openKey(file); err != nil || !r.key.Equal(*want) {
		t.Errorf("another key: %v", err)
	}
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
	has := func(pattern string) bool {
		return slices.ContainsFunc(*bom.Components, func(c cyclonedx.Component) bool {
			matched, _ := path.Match(pattern, c.PackageURL)
			return matched && len(*c.Hashes) == 1
		})
	}
	// A module of the program, and packages of the dashboard; not those of its tests.
	if !has("pkg:golang/golang.org/x/crypto@v*") || !has("pkg:npm/preact@*") || !has("pkg:npm/%40xterm/xterm@*") ||
		has("pkg:npm/playwright-core@*") {
		t.Errorf("the components are %+v", *bom.Components)
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

// TestInstall: install.sh installs what SHA256SUMS lists if its signature is right, and nothing that was changed.
func TestInstall(t *testing.T) {
	r := laidOut(t, newKey(t))
	made(t, r)
	prefix := t.TempDir()
	program := filepath.Join(prefix, "bin/fumehood")
	withMinisign := "PATH=" + filepath.Dir(minisignProgram) + ":" + os.Getenv("PATH")
	install := func(want string, variables ...string) {
		t.Helper()
		cmd := exec.Command("sh", filepath.Join(r.out, "install.sh"))
		cmd.Env = append(append(os.Environ(), "PREFIX="+prefix), variables...)
		out, err := cmd.CombinedOutput()
		content, _ := os.ReadFile(program)
		_ = os.Remove(program)
		fails := strings.HasPrefix(want, "error: ")
		if fails != (err != nil) || !strings.Contains(string(out), want) ||
			fails == bytes.Equal(content, read(t, minisignProgram)) {
			t.Errorf("%v, %d bytes installed: %s", err, len(content), out)
		}
	}
	change := func(name string, by func([]byte)) (restore func()) {
		file := filepath.Join(r.out, name)
		before := read(t, file)
		after := slices.Clone(before)
		by(after)
		write := func(content []byte) {
			if err := os.WriteFile(file, content, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		write(after)
		return func() { write(before) }
	}
	install("installed "+program, withMinisign)
	if _, err := exec.LookPath("minisign"); err != nil {
		install("note: minisign is not installed")
	}
	restore := change("fumehood-v1.2.3-linux-"+runtime.GOARCH+".tar.gz", func(b []byte) { b[len(b)/2] ^= 1 })
	install("error: the digest of", withMinisign)
	restore()
	restore = change(sumsName, func(b []byte) { b[0] ^= 1 })
	install("error: the signature of SHA256SUMS is wrong", withMinisign)
	restore()
	if err := os.Remove(filepath.Join(r.out, sumsName+".minisig")); err != nil {
		t.Fatal(err)
	}
	install("error: the signature is missing", withMinisign)
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
