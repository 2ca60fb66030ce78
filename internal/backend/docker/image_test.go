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

	"github.com/fumehood-dev/fumehood/sandbox"
)

// loadImage loads an almost empty image, in the format of `docker save`, until the end of the test.
func loadImage(t *testing.T, to *connection, tag, architecture string, config map[string]any) string {
	t.Helper()
	return loadImageOf(t, to, tag, made{architecture, config, map[string][]byte{"tmp/": nil}})
}

// made is the content of an image.
type made struct {
	architecture string
	config       map[string]any
	files        map[string][]byte // in addition to the folders that an engine needs
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
	name := "localhost/fumehood-test-made:" + tag
	manifest, err := json.Marshal([]map[string]any{{"Config": "config.json", "RepoTags": []string{name},
		"Layers": []string{"layer.tar"}}})
	if err != nil {
		t.Fatal(err)
	}
	loaded, err := to.api.ImageLoad(within(t), bytes.NewReader(archive(t,
		map[string][]byte{"config.json": about, "layer.tar": layer, "manifest.json": manifest})))
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

// archive packs files, folders (names that end in a slash) and links (names that end in an @).
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

// TestImages: an image works without a shell or programs. An image for another processor, one with a volume and a
// missing one are refused, each with its own message.
func TestImages(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		b := open(t, o)
		to := connected(t, b)
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
		digest := func(name string) string {
			i, err := b.ImageOf(within(t), name, nil)
			if err != nil {
				t.Error(err)
			}
			return i.Digest
		}
		ids := map[string]bool{"": true, digest("localhost/fumehood-test-nowhere:1"): true}
		for _, content := range []string{"1", "2"} { // as a pull of the same tag
			name := loadImageOf(t, to, "moves", made{to.arch, nil, map[string][]byte{"tmp/": nil,
				"file": []byte(content)}})
			ids[digest(name)] = true
		}
		if len(ids) != 3 {
			t.Errorf("ids of two images, and of none: %v", ids)
		}
		other := map[string]string{"amd64": "arm64", "arm64": "amd64"}[to.arch]
		refused := map[string]string{
			loadImage(t, to, "volume", to.arch,
				map[string]any{"Volumes": map[string]any{"/data": struct{}{}}}): "/data a volume",
			loadImage(t, to, "other", other, nil): "is for linux/" + other,
			"localhost/fumehood-test-nowhere:1":   "does not have the image",
		}
		for image, want := range refused {
			if _, err := try(image); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", image, err)
			}
		}
		if _, err := try("localhost/fumehood-test-nowhere:1"); sandbox.KindOf(err) != sandbox.Unsupported {
			t.Errorf("a missing image that the caller named is of kind %v", sandbox.KindOf(err))
		}
		// Preflight reports a missing image, also for a default request.
		o.Image = "localhost/fumehood-test-nowhere:1"
		bare := open(t, o)
		if _, err := bare.Preflight(spec()); sandbox.KindOf(err) != sandbox.Unavailable ||
			!strings.Contains(sandbox.FixOf(err), "pull "+o.Image) {
			t.Errorf("a missing image is preflighted as %v", err)
		}
		if p, err := bare.Probe(within(t)); err != nil || p.Ready || p.Wall("image").State != sandbox.WallMissing {
			t.Errorf("ready %v, %+v, %v", p.Ready, p.Wall("image"), err)
		}
		named := spec()
		named.Root.Image = testImage
		if _, err := bare.Preflight(named); sandbox.KindOf(err) == sandbox.Unavailable {
			t.Errorf("an existing image is preflighted as %v", err)
		}

		// With Fetch, the engine asks the registry, which does not exist.
		var said bytes.Buffer
		o.Fetch, o.Progress = true, &said
		b = open(t, o)
		_, err = try("localhost:1/fumehood-test-nowhere:1")
		if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), "registry is unreachable") ||
			!strings.Contains(sandbox.FixOf(err), o.Name+" pull") ||
			!strings.Contains(said.String(), "fetching") {
			t.Errorf("an image without a registry: %v, output %q", err, said.String())
		}
	})
}

// TestNotFetched: a stalled download and a caller's deadline are different errors.
func TestNotFetched(t *testing.T) {
	to := &connection{engine: &engine{options: &Options{Name: Name}}}
	for _, cause := range []error{context.DeadlineExceeded, context.Canceled} {
		if err := to.notFetched("x", cause, cause); !errors.Is(err, cause) ||
			strings.Contains(err.Error(), stallTimeout.String()) {
			t.Errorf("%v gives %v", cause, err)
		}
	}
	if err := to.notFetched("x", errStalled, context.Canceled); !strings.Contains(err.Error(), stallTimeout.String()) ||
		sandbox.FixOf(err) == "" {
		t.Errorf("a stalled download gives %v", err)
	}
}

// TestPull: the progress of a fetch is reported, each change of a layer once, and an image that its registry refuses
// gives its own error.
func TestPull(t *testing.T) {
	path := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	refuses := false
	server := &http.Server{ReadHeaderTimeout: stepTimeout, Handler: http.HandlerFunc(func(w http.ResponseWriter,
		r *http.Request) {
		if r.Method != http.MethodPost || !strings.HasSuffix(r.URL.Path, "/images/create") {
			w.Header().Set("Api-Version", "1.44")
			return
		}
		lines := []string{`{"status":"Pulling from x"}`,
			`{"id":"a1","status":"Downloading","progressDetail":{"current":1,"total":2097152}}`,
			`{"id":"a1","status":"Downloading","progressDetail":{"current":9,"total":2097152}}`,
			`{"id":"a1","status":"Pull complete"}`}
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
	want := "docker: x:1 is missing: fetching it\ndocker: Pulling from x\n" +
		"docker: a1: Downloading 2MiB\ndocker: a1: Pull complete\n"
	if said.String() != want {
		t.Errorf("it said %q, not %q", said.String(), want)
	}
	refuses = true
	if err := to.pull(within(t), "x:2"); sandbox.KindOf(err) != sandbox.Invalid ||
		!strings.Contains(err.Error(), "x:2") ||
		!strings.Contains(sandbox.FixOf(err), "docker login") {
		t.Errorf("a refused image: %v", err)
	}
}

// TestLinksOfImages: an image whose links lead from a writable place to the guest's socket folder on the host, or back,
// is refused before any code runs.
func TestLinksOfImages(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		for _, bridge := range []bool{false, true} {
			o.Bridge = bridge
			b := open(t, o)
			to := connected(t, b)
			for i, files := range []map[string][]byte{
				{"tmp@": []byte("/run/fumehood")},
				{"tmp@": []byte("run/fumehood/below")},
				{"workspace@": []byte("/run/fumehood"), "tmp/": nil},
				{"home@": []byte("/tmp"), "tmp/": nil},
				{"run/fumehood@": []byte("/tmp"), "tmp/": nil},
				{"run/fumehood-guest@": []byte("/workspace/a/b"), "tmp/": nil},
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

// TestPoisonedVolume: an engine replaces a removed guest volume by an empty one, which must never be filled from the
// image.
func TestPoisonedVolume(t *testing.T) {
	each(t, func(t *testing.T, o Options) {
		o.Guest = ownGuest(t)
		b := open(t, o)
		to := connected(t, b)
		image := loadImageOf(t, to, "poison", made{architecture: to.arch, files: map[string][]byte{"tmp/": nil,
			"run/fumehood-guest/":               nil,
			"run/fumehood-guest/fumehood-guest": []byte("no program"),
			"run/fumehood-guest/more":           []byte("of the image")}})
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
