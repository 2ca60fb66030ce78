package image

import (
	"archive/tar"
	"bytes"
	"errors"
	"io"
	"io/fs"
	"log"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/tarball"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// entry is one entry of a layer; without a type it is a file.
type entry struct {
	kind    byte
	name    string
	content string // or the target of a link
	mode    int64
}

func layerOf(t *testing.T, entries ...entry) v1.Layer {
	t.Helper()
	var archive bytes.Buffer
	w := tar.NewWriter(&archive)
	for _, e := range entries {
		h := &tar.Header{Typeflag: e.kind, Name: e.name, Mode: e.mode}
		switch e.kind {
		case 0, tar.TypeReg:
			h.Typeflag, h.Size = tar.TypeReg, int64(len(e.content))
		case tar.TypeSymlink, tar.TypeLink:
			h.Linkname = e.content
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Typeflag == tar.TypeReg {
			if _, err := io.WriteString(w, e.content); err != nil {
				t.Fatal(err)
			}
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	layer, err := tarball.LayerFromOpener(func() (io.ReadCloser, error) {
		return io.NopCloser(bytes.NewReader(archive.Bytes())), nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return layer
}

func imageOf(t *testing.T, layers ...v1.Layer) v1.Image {
	t.Helper()
	image, err := mutate.AppendLayers(empty.Image, layers...)
	if err != nil {
		t.Fatal(err)
	}
	return image
}

func openStore(t *testing.T) *Store {
	t.Helper()
	s, err := Open(filepath.Join(t.TempDir(), "store"))
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// content returns the files of a tree as "path=content", links as "path->target" and folders as "path/".
func content(t *testing.T, s *Store, i Image) []string {
	t.Helper()
	dir, release, err := s.Hold(i)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	list := []string{}
	err = filepath.WalkDir(dir, func(file string, e fs.DirEntry, err error) error {
		name, relErr := filepath.Rel(dir, file)
		if err = errors.Join(err, relErr); err != nil || name == "." {
			return err
		}
		switch e.Type() {
		case fs.ModeDir:
			list = append(list, name+"/")
		case fs.ModeSymlink:
			target, err := os.Readlink(file)
			list = append(list, name+"->"+target)
			return err
		default:
			text, err := os.ReadFile(file)
			list = append(list, name+"="+string(text))
			return err
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return list
}

// TestLayers: a layer replaces, removes and hides what is below it, and links lead nowhere but inside the tree.
func TestLayers(t *testing.T) {
	base := []entry{
		{tar.TypeDir, "usr/", "", 0o755}, {tar.TypeDir, "usr/lib/", "", 0o755},
		{0, "usr/lib/a", "a", 0o4755}, {tar.TypeSymlink, "lib", "/usr/lib", 0}, {0, "d/old", "old", 0o644},
		{0, "d/sub/old", "old", 0o644},
	}
	for name, test := range map[string]struct {
		layer []entry
		want  []string
	}{
		"through an absolute link": {[]entry{{0, "lib/b", "b", 0o644}},
			[]string{"d/", "d/old=old", "d/sub/", "d/sub/old=old", "lib->/usr/lib", "usr/", "usr/lib/", "usr/lib/a=a",
				"usr/lib/b=b"}},
		"removals": {[]entry{{0, "d/.wh.old", "", 0}, {0, "usr/lib/.wh.none", "", 0}, {0, "none/.wh.x", "", 0},
			{0, ".wh.lib", "", 0}, {0, "d/sub/new", "new", 0o644}, {0, "d/sub/.wh.new", "", 0}},
			[]string{"d/", "d/sub/", "d/sub/new=new", "d/sub/old=old", "usr/", "usr/lib/", "usr/lib/a=a"}},
		"an opaque folder": {[]entry{{0, "d/new", "new", 0o644}, {0, "d/.wh..wh..opq", "", 0},
			{0, "d/late", "late", 0o644}},
			[]string{"d/", "d/late=late", "d/new=new", "lib->/usr/lib", "usr/", "usr/lib/", "usr/lib/a=a"}},
		"another kind": {[]entry{{0, "d", "file", 0o644}, {tar.TypeDir, "lib/", "", 0o755},
			{tar.TypeSymlink, "usr/lib/a", "x", 0}},
			[]string{"d=file", "lib/", "usr/", "usr/lib/", "usr/lib/a->x"}},
		"a hard link": {[]entry{{tar.TypeLink, "copy", "/lib/a", 0}, {tar.TypeLink, "usr/lib/a", "usr/lib/a", 0}},
			[]string{"copy=a", "d/", "d/old=old", "d/sub/", "d/sub/old=old", "lib->/usr/lib", "usr/", "usr/lib/",
				"usr/lib/a=a"}},
		"devices and paths": {[]entry{{tar.TypeChar, "dev/null", "", 0o666}, {tar.TypeFifo, "p", "", 0o666},
			{0, "../../x", "x", 0o644}, {0, "/d/../y", "y", 0o644}},
			[]string{"d/", "d/old=old", "d/sub/", "d/sub/old=old", "dev/", "lib->/usr/lib", "usr/", "usr/lib/",
				"usr/lib/a=a", "x=x", "y=y"}},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			image := imageOf(t, layerOf(t, base...), layerOf(t, test.layer...))
			i, err := s.add(t.Context(), source{name: "a", image: image})
			if err != nil {
				t.Fatal(err)
			}
			if got := content(t, s, i); !slices.Equal(got, test.want) {
				t.Errorf("got  %q\nwant %q", got, test.want)
			}
			info, err := os.Lstat(filepath.Join(s.trees.Files(i.Tree), "usr/lib/a"))
			if err != nil || info.Mode()&(fs.ModeSetuid|fs.ModeSetgid) != 0 {
				t.Errorf("%v, %v", info, err)
			}
		})
	}
}

// TestHostileLayers: no layer writes outside of its tree, and one without bounds is refused.
func TestHostileLayers(t *testing.T) {
	outside := t.TempDir()
	many := make([]entry, 200)
	for i := range many {
		many[i] = entry{0, strings.Repeat("x", i+1), "", 0o644}
	}
	for name, test := range map[string]struct {
		layer []entry
		fails bool
	}{
		"a link to the host": {[]entry{{tar.TypeSymlink, "l", outside, 0}, {0, "l/x", "x", 0o644}}, true},
		"a link up": {[]entry{{tar.TypeSymlink, "l", "../../../../../../.." + outside, 0},
			{0, "l/x", "x", 0o644}}, true},
		"a link over":             {[]entry{{tar.TypeSymlink, "l", outside + "/x", 0}, {0, "l", "x", 0o644}}, false},
		"a hard link to the host": {[]entry{{tar.TypeLink, "passwd", "/etc/passwd", 0}}, true},
		"a hard link through a link": {[]entry{{tar.TypeSymlink, "l", "/etc", 0},
			{tar.TypeLink, "p", "l/passwd", 0}}, true},
		"a removal of the host": {[]entry{{tar.TypeSymlink, "l", "/", 0},
			{0, "l/.wh." + filepath.Base(outside), "", 0}}, false},
		"a removal of the parent": {[]entry{{0, ".wh...", "", 0}}, true},
		"many entries":            {many, true},
		"many bytes":              {[]entry{{0, "a", strings.Repeat("x", 70_000), 0o644}}, true},
		"many folders":            {[]entry{{0, strings.Repeat("d/", 300) + "x", "", 0o644}}, true},
	} {
		t.Run(name, func(t *testing.T) {
			s := openStore(t)
			s.Limits = Limits{Bytes: 64 << 10, Entries: 100}
			_, err := s.add(t.Context(), source{name: "a", image: imageOf(t, layerOf(t, test.layer...))})
			if (err != nil) != test.fails {
				t.Error(err)
			}
			entries, err := os.ReadDir(outside)
			if err != nil || len(entries) > 0 {
				t.Errorf("outside: %v, %v", entries, err)
			}
			if drafts, _ := os.ReadDir(s.dir + "/work"); len(drafts) > 0 {
				t.Errorf("left: %v", drafts)
			}
		})
	}
}

// TestPull: an image comes from a registry, shares the files of an image with the same lower layers, and stays while it
// is in use.
func TestPull(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	host := strings.TrimPrefix(server.URL, "http://")
	below := layerOf(t, entry{0, "bin/sh", "shell", 0o755})
	for tag, image := range map[string]v1.Image{"a": imageOf(t, below),
		"b": imageOf(t, below, layerOf(t, entry{0, "etc/x", "x", 0o644}))} {
		ref, err := name.ParseReference(host + "/team/app:" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, image); err != nil {
			t.Fatal(err)
		}
	}
	s := openStore(t)
	a, errA := s.Pull(t.Context(), host+"/team/app:a", nil)
	b, errB := s.Pull(t.Context(), host+"/team/app:b", nil)
	if err := errors.Join(errA, errB); err != nil {
		t.Fatal(err)
	}
	if got := content(t, s, b); !slices.Equal(got, []string{"bin/", "bin/sh=shell", "etc/", "etc/x=x"}) {
		t.Errorf("%q", got)
	}
	infoA, _ := os.Stat(s.trees.Files(a.Tree) + "/bin/sh")
	infoB, _ := os.Stat(s.trees.Files(b.Tree) + "/bin/sh")
	if !os.SameFile(infoA, infoB) {
		t.Error("the images do not share the files of a layer")
	}
	_, release, err := s.Hold(a)
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Remove(host + "/team/app:a"); sandbox.KindOf(err) != sandbox.Exists {
		t.Errorf("removed while in use: %v", err)
	}
	release()
	if err := s.Remove(host + "/team/app:a"); err != nil {
		t.Error(err)
	}
	if list, err := s.List(); err != nil || len(list) != 1 || list[0].Name != b.Name {
		t.Errorf("%+v, %v", list, err)
	}
	for text, kind := range map[string]sandbox.Kind{"team/app:none": sandbox.NotFound, "Team/App": sandbox.Invalid} {
		if _, err := s.Pull(t.Context(), host+"/"+text, nil); sandbox.KindOf(err) != kind {
			t.Errorf("%s: %v", text, err)
		}
	}
	server.Close()
	if _, err := s.Pull(t.Context(), host+"/team/app:b", nil); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Error(err)
	}
}

// TestLyingRegistry: a layer that is not the one of its digest is refused, whichever digest is wrong.
func TestLyingRegistry(t *testing.T) {
	real := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	lie := false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if lie && strings.Contains(r.URL.Path, "/blobs/") {
			answer := httptest.NewRecorder()
			real.ServeHTTP(answer, r)
			body := answer.Body.Bytes()
			if len(body) > 20 {
				body[len(body)-10] ^= 1
			}
			w.WriteHeader(answer.Code)
			_, _ = w.Write(body)
			return
		}
		real.ServeHTTP(w, r)
	}))
	defer server.Close()
	text := strings.TrimPrefix(server.URL, "http://") + "/app:a"
	ref, err := name.ParseReference(text)
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, imageOf(t, layerOf(t, entry{0, "a", "a", 0o644}))); err != nil {
		t.Fatal(err)
	}
	lie = true
	s := openStore(t)
	if i, err := s.Pull(t.Context(), text, nil); err == nil {
		t.Errorf("accepted %+v", i)
	}
	other := layerOf(t, entry{0, "a", "b", 0o644})
	wrong, err := mutate.ConfigFile(imageOf(t, other), &v1.ConfigFile{RootFS: v1.RootFS{Type: "layers",
		DiffIDs: []v1.Hash{{Algorithm: "sha256", Hex: strings.Repeat("0", 64)}}}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.add(t.Context(), source{name: "a", image: wrong}); sandbox.KindOf(err) != sandbox.Invalid {
		t.Error(err)
	}
	if list, _ := s.trees.Digests(); len(list) > 0 {
		t.Errorf("kept %q", list)
	}
}

// TestImport: an image comes from docker save, an OCI layout or archive, or a folder.
func TestImport(t *testing.T) {
	dir := t.TempDir()
	image := imageOf(t, layerOf(t, entry{0, "bin/sh", "shell", 0o755}, entry{tar.TypeSymlink, "l", "bin", 0}))
	saved, oci, root := filepath.Join(dir, "saved.tar"), filepath.Join(dir, "oci"), filepath.Join(dir, "root")
	tag, err := name.NewTag("example.org/app:1")
	if err != nil {
		t.Fatal(err)
	}
	path, err := layout.Write(oci, empty.Index)
	err = errors.Join(err, tarball.WriteToFile(saved, tag, image), path.AppendImage(image),
		os.MkdirAll(root+"/bin", 0o755), os.WriteFile(root+"/bin/sh", []byte("shell"), 0o755),
		os.Symlink("bin", root+"/l"))
	if err != nil {
		t.Fatal(err)
	}
	archive, err := os.Create(filepath.Join(dir, "oci.tar"))
	if err != nil {
		t.Fatal(err)
	}
	w := tar.NewWriter(archive)
	if err := errors.Join(addFolder(w, oci, false), w.Close(), archive.Close()); err != nil {
		t.Fatal(err)
	}
	for file, named := range map[string]string{saved: "", oci: "oci", archive.Name(): "archive", root: "root"} {
		s := openStore(t)
		i, err := s.Import(t.Context(), file, named, nil)
		if err != nil {
			t.Errorf("%s: %v", file, err)
			continue
		}
		if got := content(t, s, i); !slices.Equal(got, []string{"bin/", "bin/sh=shell", "l->bin"}) {
			t.Errorf("%s: %q", file, got)
		}
		if _, err := s.Find(i.Name); err != nil {
			t.Error(err)
		}
	}
	cut, err := os.ReadFile(saved)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(saved, cut[:len(cut)/2], 0o600); err != nil {
		t.Fatal(err)
	}
	s := openStore(t)
	for _, file := range []string{saved, filepath.Join(dir, "none"), os.Args[0]} {
		if i, err := s.Import(t.Context(), file, "x", nil); err == nil {
			t.Errorf("%s: %+v", file, i)
		}
	}
}

// TestDepth: links in a layer lead to no folder that is deeper than a path may be.
func TestDepth(t *testing.T) {
	deep := strings.Repeat("d/", 200)
	for what, layer := range map[string][]entry{
		"folders below a link": {{tar.TypeDir, deep, "", 0o755}, {tar.TypeSymlink, "l", deep, 0},
			{tar.TypeDir, "l/" + deep, "", 0o755}},
		"a link of many parts": {{tar.TypeSymlink, "l", strings.Repeat("./", 300), 0}},
	} {
		s := openStore(t)
		_, err := s.add(t.Context(), source{name: "a", image: imageOf(t, layerOf(t, layer...))})
		if sandbox.KindOf(err) != sandbox.Invalid || !strings.Contains(err.Error(), "too long") {
			t.Errorf("%s: %v", what, err)
		}
	}
}
