package docker

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"net"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/client"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// loadImage makes an image that holds next to nothing, as `docker save` writes it, until the end of the test.
func loadImage(t *testing.T, to *connection, tag, architecture string, config map[string]any) string {
	t.Helper()
	return loadImageOf(t, to, tag, made{architecture, config, map[string][]byte{"tmp/": nil}})
}

// made is what an image is made of.
type made struct {
	architecture string
	config       map[string]any
	files        map[string][]byte // beside the folders that an engine needs
}

func loadImageOf(t *testing.T, to *connection, tag string, of made) string {
	t.Helper()
	all := map[string][]byte{"proc/": nil, "dev/": nil, "sys/": nil, "etc/": nil, "run/": nil}
	maps.Copy(all, of.files)
	layer := archive(t, all)
	digest := sha256.Sum256(layer)
	about, err := json.Marshal(map[string]any{"architecture": of.architecture, "os": "linux", "config": of.config,
		"rootfs": map[string]any{"type": "layers", "diff_ids": []string{"sha256:" + hex.EncodeToString(digest[:])}}})
	if err != nil {
		t.Fatal(err)
	}
	name := "localhost/glovebox-test-made:" + tag
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name}, "Layers": []string{"layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := to.api.ImageLoad(within(t), bytes.NewReader(archive(t, map[string][]byte{"config.json": about, "layer.tar": layer, "manifest.json": manifest})))
	if err != nil {
		t.Fatal(err)
	}
	defer loaded.Close()
	if _, err := io.Copy(io.Discard, loaded); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _, _ = to.api.ImageRemove(context.Background(), name, client.ImageRemoveOptions{Force: true}) })
	return name
}

// archive packs files, folders, whose names end in a slash, and links, whose names end in an @.
func archive(t *testing.T, files map[string][]byte) []byte {
	t.Helper()
	var text bytes.Buffer
	w := tar.NewWriter(&text)
	for _, name := range slices.Sorted(maps.Keys(files)) {
		h := &tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o755, Size: int64(len(files[name]))}
		if strings.HasSuffix(name, "/") {
			h.Typeflag = tar.TypeDir
		}
		if link, is := strings.CutSuffix(name, "@"); is {
			h.Typeflag, h.Name, h.Linkname, h.Size = tar.TypeSymlink, link, string(files[name]), 0
		}
		if err := w.WriteHeader(h); err != nil {
			t.Fatal(err)
		}
		if h.Size == 0 {
			continue
		}
		if _, err := w.Write(files[name]); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return text.Bytes()
}

// TestImages: an image needs no shell and no program to be a root; one of another processor, one that declares a volume and one that is
// not there are refused, each with a sentence of its own.
func TestImages(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		b := open(t, o)
		to := met(t, b)
		try := func(image string) (sandbox.Box, error) {
			s := spec()
			s.Root.Image = image
			box, err := b.Create(within(t), s)
			if err != nil {
				if l := left(t, b, s.ID); len(l) > 0 {
					t.Errorf("%s: left behind: %v", image, l)
				}
				return nil, err
			}
			return box, nil
		}
		box, err := try(loadImage(t, to, "empty", to.arch, nil))
		if err != nil {
			t.Fatalf("an empty image: %v", err)
		}
		if err := box.Close(); err != nil {
			t.Error(err)
		}
		other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[to.arch]
		refused := map[string]string{
			loadImage(t, to, "volume", to.arch, map[string]any{"Volumes": map[string]any{"/data": struct{}{}}}): "/data a volume",
			loadImage(t, to, "other", other, nil): "is for linux/" + other,
			"localhost/glovebox-test-nowhere:1":   "is not here",
		}
		for image, want := range refused {
			if _, err := try(image); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", image, err)
			}
		}
		if _, err := try("localhost/glovebox-test-nowhere:1"); sandbox.KindOf(err) != sandbox.Unsupported {
			t.Errorf("an image that was named and is not there, which the caller can fix: %v", sandbox.KindOf(err))
		}
		// What Create would refuse for want of an image is preflighted: also that of a run that asks for nothing.
		o.Image = "localhost/glovebox-test-nowhere:1"
		bare := open(t, o)
		if _, err := bare.Preflight(spec()); sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(sandbox.FixOf(err), "pull "+o.Image) {
			t.Errorf("an image that is not there is preflighted as %v", err)
		}
		if p, err := bare.Probe(within(t)); err != nil || p.Wall("image").State != sandbox.WallMissing {
			t.Errorf("%+v, %v", p.Wall("image"), err)
		}
		named := spec()
		named.Root.Image = testImage
		if _, err := bare.Preflight(named); sandbox.KindOf(err) == sandbox.Unavailable {
			t.Errorf("an image that is there is preflighted as %v", err)
		}

		// With leave to fetch it, the registry is asked, of which there is none.
		var said bytes.Buffer
		o.Fetch, o.Progress = true, &said
		b = open(t, o)
		_, err = try("localhost:1/glovebox-test-nowhere:1")
		if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), "registry cannot be reached") || !strings.Contains(sandbox.FixOf(err), o.Name+" pull") ||
			!strings.Contains(said.String(), "fetching") {
			t.Errorf("an image of no registry: %v, and said %q", err, said.String())
		}
	})
}

// TestNotFetched: an image that stands still is one thing, and a caller whose time is up another.
func TestNotFetched(t *testing.T) {
	to := &connection{engine: &engine{options: &Options{Name: Name}}}
	for _, cause := range []error{context.DeadlineExceeded, context.Canceled} {
		if err := to.notFetched("x", cause, cause); !errors.Is(err, cause) || strings.Contains(err.Error(), stallTimeout.String()) {
			t.Errorf("of %v it makes %v", cause, err)
		}
	}
	if err := to.notFetched("x", errStalled, context.Canceled); !strings.Contains(err.Error(), stallTimeout.String()) || sandbox.FixOf(err) == "" {
		t.Errorf("of one that stands still it makes %v", err)
	}
}

// TestPull: what an engine says while it fetches an image is told, each change of a layer once, and an image that its registry refuses is an
// error that says so.
func TestPull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	refuses := false
	server := &http.Server{ReadHeaderTimeout: stepTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/images/create") {
			w.Header().Set("Api-Version", "1.44")
			return
		}
		lines := []string{`{"status":"Pulling from x"}`, `{"id":"a1","status":"Downloading","progressDetail":{"current":1,"total":2097152}}`,
			`{"id":"a1","status":"Downloading","progressDetail":{"current":9,"total":2097152}}`, `{"id":"a1","status":"Pull complete"}`}
		if refuses {
			lines = []string{`{"errorDetail":{"message":"manifest unknown"},"error":"manifest unknown"}`}
		}
		_, _ = io.WriteString(w, strings.Join(lines, "\n"))
	})}
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = server.Serve(l)
	}()
	defer func() { server.Close(); <-served }()
	api, err := newClient(&endpoint{host: "unix://" + path})
	if err != nil {
		t.Fatal(err)
	}
	defer api.Close()
	var said bytes.Buffer
	to := &connection{api: api, engine: &engine{options: &Options{Name: Name, Fetch: true, Progress: &said}}}
	if err := to.pull(within(t), "x:1"); err != nil {
		t.Fatal(err)
	}
	want := "docker: x:1 is not here yet: fetching it\ndocker: Pulling from x\ndocker: a1: Downloading 2MiB\ndocker: a1: Pull complete\n"
	if said.String() != want {
		t.Errorf("it said %q, not %q", said.String(), want)
	}
	refuses = true
	if err := to.pull(within(t), "x:2"); sandbox.KindOf(err) != sandbox.Invalid || !strings.Contains(err.Error(), "x:2") || !strings.Contains(sandbox.FixOf(err), "docker login") {
		t.Errorf("of an image that is refused: %v", err)
	}
}

// TestLinksOfImages: an image whose links lead from a writable place to the folder of the guest's socket, which is the host's, or the
// other way, is refused before any code runs.
func TestLinksOfImages(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		for _, bridge := range []bool{false, true} {
			o.Bridge = bridge
			b := open(t, o)
			to := met(t, b)
			for i, files := range []map[string][]byte{
				{"tmp@": []byte("/run/glovebox")},
				{"tmp@": []byte("run/glovebox/below")},
				{"workspace@": []byte("/run/glovebox"), "tmp/": nil},
				{"home@": []byte("/tmp"), "tmp/": nil},
				{"run/glovebox@": []byte("/tmp"), "tmp/": nil},
				{"run/glovebox-guest@": []byte("/workspace/a/b"), "tmp/": nil},
			} {
				s := spec()
				s.Root.Image = loadImageOf(t, to, fmt.Sprintf("links%d", i), made{architecture: to.arch, files: files})
				box, err := b.Create(within(t), s)
				if err == nil {
					err = box.Close()
					if o.Name == Podman && i > 3 { // its own file system over /run hides these links
						continue
					}
					t.Errorf("%s, bridged %v: a root with %q was accepted (%v)", o.Name, bridge, files, err)
				} else if l := left(t, b, s.ID); len(l) > 0 {
					t.Errorf("%s: left behind: %v", s.Root.Image, l)
				}
				t.Logf("%s: %v", s.Root.Image, err)
			}
		}
	})
}

// TestPoisonedVolume: where the guest's volume was removed, the engine makes an empty one of its name, which never gets what an image has
// in the guest's place.
func TestPoisonedVolume(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		o.Guest = ownGuest(t)
		b := open(t, o)
		to := met(t, b)
		image := loadImageOf(t, to, "poison", made{architecture: to.arch, files: map[string][]byte{"tmp/": nil, "run/glovebox-guest/": nil,
			"run/glovebox-guest/glovebox-guest": []byte("no program"), "run/glovebox-guest/more": []byte("of the image")}})
		create(t, b, spec()).Close()
		name := b.engine.filled[to.arch]
		t.Cleanup(func() {
			for _, volume := range []string{name, name + readySuffix} {
				_, _ = to.api.VolumeRemove(context.Background(), volume, client.VolumeRemoveOptions{})
			}
		})
		if _, err := to.api.VolumeRemove(within(t), name, client.VolumeRemoveOptions{}); err != nil {
			t.Fatal(err)
		}
		s := spec()
		s.Root.Image = image
		create(t, b, s).Close()
		box := create(t, b, spec())
		if out := run(t, box, "ls "+guestDir); out != guestFile+"\n" {
			t.Errorf("the guest's folder holds %q", out)
		}
		box.Close()
	})
}
