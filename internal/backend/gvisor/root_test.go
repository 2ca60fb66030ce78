package gvisor

import (
	"errors"
	"os"
	"path/filepath"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// TestPlacesFollowNoLinkOut: mount points stay in the skeleton, although it contains the links of a foreign root.
func TestPlacesFollowNoLinkOut(t *testing.T) {
	host, source := t.TempDir(), t.TempDir()
	for _, link := range []string{host, "../../../../../../../.." + host} {
		r := &root{dir: t.TempDir()}
		if err := os.Symlink(link, filepath.Join(r.dir, "data")); err != nil {
			t.Fatal(err)
		}
		for _, target := range []string{"/data/x", "/data/x/y"} {
			err := r.places(&sandbox.Spec{Mounts: []sandbox.Mount{{Source: source, Target: target}}})
			if sandbox.KindOf(err) != sandbox.Invalid || sandbox.FixOf(err) == "" {
				t.Errorf("%s by %s: %v", target, link, err)
			}
		}
		if left, err := os.ReadDir(host); err != nil || len(left) > 0 {
			t.Fatalf("on the host is %v, %v", left, err)
		}
	}
}

// TestPlaces: files and folders get mount points of their kind, also below links that stay in the root.
func TestPlaces(t *testing.T) {
	r, source := &root{dir: t.TempDir()}, t.TempDir()
	file := filepath.Join(source, "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(filepath.Join(r.dir, "opt"), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("opt", filepath.Join(r.dir, "data")); err != nil {
		t.Fatal(err)
	}
	err := r.places(&sandbox.Spec{Mounts: []sandbox.Mount{{Source: source, Target: "/data/folder"},
		{Source: file, Target: "/data/folder/deep/file"},
		{Source: file, Target: "/top"}}})
	if err != nil {
		t.Fatal(err)
	}
	for name, isDir := range map[string]bool{"opt/folder": true, "opt/folder/deep/file": false, "top": false} {
		if info, err := os.Lstat(filepath.Join(r.dir, name)); err != nil || info.IsDir() != isDir {
			t.Errorf("%s: %v, %v", name, info, err)
		}
	}
}

// TestRootIsBuiltAgain: a root that could not be built is tried again for the next sandbox.
func TestRootIsBuiltAgain(t *testing.T) {
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	in, err := b.instance()
	if err != nil {
		t.Fatal(err)
	}
	folder := t.TempDir()
	s := sandbox.Spec{Root: sandbox.Root{Dir: folder}}
	if _, err := b.root(in, &s, ""); err == nil {
		t.Fatal("an empty folder is a root")
	}
	if err := os.Mkdir(filepath.Join(folder, "usr"), 0o755); err != nil {
		t.Fatal(err)
	}
	r, err := b.root(in, &s, "")
	if err != nil {
		t.Fatal(err)
	}
	if again, err := b.root(in, &s, ""); err != nil || again != r {
		t.Errorf("the second time it is another: %v", err)
	}
	own := t.TempDir()
	s.Root.Image = "image"
	if r, err := b.root(in, &s, own); err != nil || filepath.Dir(r.dir) != own || len(b.roots) != 1 {
		t.Errorf("the root of an image stays after its box: %v, %d shared roots", err, len(b.roots))
	}
}

// TestPlacesInWhatIsShown: no mount point is made in a host folder, even a writable one.
func TestPlacesInWhatIsShown(t *testing.T) {
	backendtest.ForCheck(t, "five sandboxes")
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	folder, source := t.TempDir(), t.TempDir()
	open := filepath.Join(folder, "usr", "open")
	err := errors.Join(os.MkdirAll(filepath.Join(open, "there", "deep"), 0o755), os.Chmod(open, 0o777),
		os.WriteFile(filepath.Join(open, "file"), nil, 0o644),
		os.Mkdir(filepath.Join(source, "below"), 0o755), os.Symlink("/usr/open/there", filepath.Join(open, "link")))
	if err != nil {
		t.Fatal(err)
	}
	for target, good := range map[string]bool{"/usr/open/there/deep": true, "/usr/open/link/deep": true,
		"/usr/open/new": false, "/usr/open/file": false,
		"/usr/open/file/new": false} {
		s := spec()
		s.Root = sandbox.Root{Dir: folder}
		s.Mounts = []sandbox.Mount{{Source: source, Target: target}}
		if good {
			s.Mounts = append(s.Mounts, sandbox.Mount{Source: source, Target: target + "/below"})
		}
		box, err := b.Create(t.Context(), s)
		if err == nil {
			box.Close()
		}
		if good && err != nil || !good && (sandbox.KindOf(err) != sandbox.Invalid || sandbox.FixOf(err) == "") {
			t.Errorf("a mount at %s: %v", target, err)
		}
	}
	if left, err := os.ReadDir(open); err != nil || len(left) != 3 {
		t.Errorf("in the folder is %v, %v", left, err)
	}
}

// TestRootFollowsTheHost: files that disappear from or appear in the host's system do not prevent new sandboxes.
func TestRootFollowsTheHost(t *testing.T) {
	backendtest.ForCheck(t, "four sandboxes")
	b := openIn(t, filepath.Join(t.TempDir(), "run"), "")
	folder := t.TempDir()
	if err := errors.Join(os.MkdirAll(filepath.Join(folder, "usr"), 0o755),
		os.MkdirAll(filepath.Join(folder, "opt"), 0o755)); err != nil {
		t.Fatal(err)
	}
	make := func() {
		t.Helper()
		s := spec()
		s.Root = sandbox.Root{Dir: folder}
		box, err := b.Create(t.Context(), s)
		if err != nil {
			t.Fatal(err)
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
	}
	make()
	if err := os.Remove(filepath.Join(folder, "opt")); err != nil {
		t.Fatal(err)
	}
	make()
	if err := os.WriteFile(filepath.Join(folder, "opt"), nil, 0o644); err != nil {
		t.Fatal(err)
	}
	make()
	if err := errors.Join(os.Remove(filepath.Join(folder, "opt")), os.Mkdir(filepath.Join(folder, "opt"),
		0o755)); err != nil {
		t.Fatal(err)
	}
	make()
}
