package image

import (
	"archive/tar"
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/static"
	"github.com/google/go-containerregistry/pkg/v1/types"
	"github.com/klauspost/compress/zstd"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestBadRegistries: what a registry does wrong is an error with its kind, soon, and leaves no tree behind.
func TestBadRegistries(t *testing.T) {
	const giga = 1 << 30
	type badly = func(w http.ResponseWriter, r *http.Request, real *httptest.ResponseRecorder)
	inManifest := func(change func(m *v1.Manifest)) badly {
		return func(w http.ResponseWriter, r *http.Request, real *httptest.ResponseRecorder) {
			if strings.Contains(r.URL.Path, "/manifests/") && real.Body.Len() > 0 {
				var m v1.Manifest
				if err := json.Unmarshal(real.Body.Bytes(), &m); err != nil {
					t.Error(err)
				}
				change(&m)
				text, _ := json.Marshal(m)
				real.Header().Del("Docker-Content-Digest")
				real.Header().Del("Content-Length")
				real.Body = bytes.NewBuffer(text)
			}
			pass(w, real)
		}
	}
	for what, test := range map[string]struct {
		answer badly
		kind   sandbox.Kind
		text   string
	}{
		"it refuses": {func(w http.ResponseWriter, _ *http.Request, _ *httptest.ResponseRecorder) {
			w.WriteHeader(http.StatusUnauthorized)
		}, sandbox.Unauthorized, ""},
		"it fails": {func(w http.ResponseWriter, _ *http.Request, _ *httptest.ResponseRecorder) {
			w.WriteHeader(http.StatusTeapot)
		}, sandbox.Unavailable, ""},
		"it is no registry": {func(w http.ResponseWriter, _ *http.Request, _ *httptest.ResponseRecorder) {
			_, _ = io.WriteString(w, "<html>hello</html>")
		}, sandbox.Unavailable, ""},
		"it has large headers": {func(w http.ResponseWriter, _ *http.Request, real *httptest.ResponseRecorder) {
			w.Header().Set("X-A", strings.Repeat("a", 70<<10))
			pass(w, real)
		}, sandbox.Unavailable, "server response headers exceeded"},
		"it stalls": {func(w http.ResponseWriter, r *http.Request, real *httptest.ResponseRecorder) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				real.Body.Truncate(real.Body.Len() / 2)
				_, _ = w.Write(real.Body.Bytes())
				w.(http.Flusher).Flush()
				<-r.Context().Done()
				return
			}
			pass(w, real)
		}, sandbox.Unavailable, "no bytes for"},
		"a layer is cut short": {func(w http.ResponseWriter, r *http.Request, real *httptest.ResponseRecorder) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				real.Body.Truncate(real.Body.Len() / 2)
				real.Header().Del("Content-Length")
			}
			pass(w, real)
		}, sandbox.Unavailable, ""},
		"it redirects to this machine": {func(w http.ResponseWriter, r *http.Request, real *httptest.ResponseRecorder) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				_, port, _ := strings.Cut(r.Host, ":")
				http.Redirect(w, r, "http://localhost:"+port+r.URL.Path, http.StatusTemporaryRedirect)
				return
			}
			pass(w, real)
		}, sandbox.Unavailable, "an address of this machine"},
		"it understates a size": {inManifest(func(m *v1.Manifest) { m.Layers[0].Size = 10 }), sandbox.Unavailable, ""},
		"it overstates a size": {inManifest(func(m *v1.Manifest) { m.Layers[0].Size = 30 * giga }),
			sandbox.TooLarge, ""},
		"its manifest is large": {inManifest(func(m *v1.Manifest) {
			m.Annotations = map[string]string{"a": strings.Repeat("a", 3<<20)}
		}), sandbox.TooLarge, "bytes or values"},
		"its manifest has many values": {func(w http.ResponseWriter, r *http.Request, real *httptest.ResponseRecorder) {
			if strings.Contains(r.URL.Path, "/manifests/") {
				real.Header().Del("Content-Length")
				real.Body = bytes.NewBufferString(`{"layers":[` + strings.Repeat("0,", 300_000) + `0]}`)
			}
			pass(w, real)
		}, sandbox.TooLarge, "bytes or values"},
		"it has many layers": {inManifest(func(m *v1.Manifest) {
			m.Layers = slices.Repeat(m.Layers, 501)
		}), sandbox.TooLarge, "layers"},
		"its configuration is large": {inManifest(func(m *v1.Manifest) { m.Config.Size = 3 << 20 }),
			sandbox.TooLarge, "configuration"},
		"its configuration has an unknown size": {inManifest(func(m *v1.Manifest) { m.Config.Size = -1 }),
			sandbox.TooLarge, "configuration"},
		"a size is negative": {inManifest(func(m *v1.Manifest) { m.Layers[0].Size = -1 }), sandbox.TooLarge, ""},
	} {
		t.Run(what, func(t *testing.T) {
			t.Parallel()
			s := openStore(t)
			s.Limits.Bytes, s.stall = 10*giga, time.Minute
			if what == "it stalls" {
				s.stall = 200 * time.Millisecond
			}
			text := serveBadly(t, imageOf(t, layerOf(t, entry{0, "a", strings.Repeat("a", 1000), 0o644})), test.answer)
			_, err := s.Pull(t.Context(), text, nil)
			if sandbox.KindOf(err) != test.kind || err == nil || !strings.Contains(err.Error(), test.text) {
				t.Errorf("kind %v: %v", sandbox.KindOf(err), err)
			}
			if kept, err := s.trees.Digests(); err != nil || len(kept) > 0 {
				t.Errorf("kept %q, %v", kept, err)
			}
		})
	}
}

func pass(w http.ResponseWriter, real *httptest.ResponseRecorder) {
	for k, v := range real.Header() {
		w.Header()[k] = v
	}
	w.WriteHeader(real.Code)
	_, _ = w.Write(real.Body.Bytes())
}

// serveBadly serves an image by a registry whose answers a test changes, and returns its name.
func serveBadly(t *testing.T, image v1.Image,
	answer func(http.ResponseWriter, *http.Request, *httptest.ResponseRecorder)) string {
	t.Helper()
	real, bad := registry.New(registry.Logger(log.New(io.Discard, "", 0))), false
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !bad {
			real.ServeHTTP(w, r)
			return
		}
		recorded := httptest.NewRecorder()
		real.ServeHTTP(recorded, r)
		answer(w, r, recorded)
	}))
	t.Cleanup(server.Close)
	text := strings.TrimPrefix(server.URL, "http://") + "/app:a"
	ref, err := name.ParseReference(text)
	if err == nil {
		err = remote.Write(ref, image)
	}
	if err != nil {
		t.Fatal(err)
	}
	bad = true
	return text
}

// TestZstandard: a layer in Zstandard is unpacked, unless its window is large.
func TestZstandard(t *testing.T) {
	content, err := layerOf(t, entry{0, "a", strings.Repeat("a", 1<<20), 0o644}).Uncompressed()
	if err != nil {
		t.Fatal(err)
	}
	archive, err := io.ReadAll(content)
	if err != nil {
		t.Fatal(err)
	}
	for window, large := range map[int]bool{8 << 20: false, 256 << 20: true} {
		var packed bytes.Buffer
		w, err := zstd.NewWriter(&packed, zstd.WithWindowSize(window))
		if err == nil {
			_, err = w.Write(archive)
			err = errors.Join(err, w.Flush(), w.Close()) // Flush: the size is unknown, so the frame names the window
		}
		if err != nil {
			t.Fatal(err)
		}
		r, err := uncompressed(static.NewLayer(packed.Bytes(), types.OCILayerZStd))
		if err != nil {
			t.Fatal(err)
		}
		found, err := io.ReadAll(r)
		if large != errors.Is(err, zstd.ErrWindowSizeExceeded) || !large && !bytes.Equal(found, archive) {
			t.Errorf("a window of %d: %d bytes, %v", window, len(found), err)
		}
	}
}

// TestPullOnce: concurrent pulls of one image fetch it once.
func TestPullOnce(t *testing.T) {
	var blobs atomic.Int32
	text := serveBadly(t, imageOf(t, layerOf(t, entry{0, "a", "a", 0o644})),
		func(w http.ResponseWriter, r *http.Request, real *httptest.ResponseRecorder) {
			if strings.Contains(r.URL.Path, "/blobs/") {
				blobs.Add(1)
				time.Sleep(50 * time.Millisecond) // the others come meanwhile
			}
			pass(w, real)
		})
	s := openStore(t)
	results := make(chan error)
	for range 8 {
		go func() {
			_, err := s.Pull(t.Context(), text, nil)
			results <- err
		}()
	}
	for range 8 {
		if err := <-results; err != nil {
			t.Error(err)
		}
	}
	if blobs.Load() != 2 || len(s.pulls) != 0 {
		t.Errorf("%d blobs", blobs.Load())
	}
	other := openStore(t)
	roots := Roots{Open: func() (*Store, error) { return other, nil }, Fetch: true}
	_, err := roots.Find(t.Context(), text, func(ctx context.Context, pull func(context.Context) error) error {
		_, err := other.Pull(ctx, text, nil) // while this call waits
		return errors.Join(err, pull(ctx))
	})
	if err != nil || blobs.Load() != 4 {
		t.Errorf("after a wait: %d blobs, %v", blobs.Load(), err)
	}
}

// TestTemplateBuiltDuringPull: a pull does not replace a template that was built after the pull began.
func TestTemplateBuiltDuringPull(t *testing.T) {
	s := openStore(t)
	base, err := s.add(t.Context(), source{name: "base", image: imageOf(t, layerOf(t, entry{0, "b", "b", 0o644}))})
	if err != nil {
		t.Fatal(err)
	}
	var name string
	var built atomic.Bool
	name = serveBadly(t, imageOf(t, layerOf(t, entry{0, "a", "a", 0o644})),
		func(w http.ResponseWriter, r *http.Request, real *httptest.ResponseRecorder) {
			if strings.Contains(r.URL.Path, "/blobs/") && built.CompareAndSwap(false, true) {
				if _, err := s.Put(name, "alice", base.Tree, Config{}); err != nil {
					t.Error(err)
				}
			}
			pass(w, real)
		})
	if _, err := s.Pull(t.Context(), name, nil); sandbox.KindOf(err) != sandbox.Exists {
		t.Error(err)
	}
	if i, err := s.Find(name); err != nil || i.Owner != "alice" {
		t.Errorf("%+v, %v", i, err)
	}
}

// TestHugeImage: an image of 30 GiB is refused by its headers under a limit of 10.
func TestHugeImage(t *testing.T) {
	var archive bytes.Buffer
	if err := tar.NewWriter(&archive).WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: "a", Mode: 0o644,
		Size: 30 << 30}); err != nil {
		t.Fatal(err)
	}
	s := openStore(t)
	s.Bound(10 << 30)
	_, err := s.Derive(t.Context(), Layer{Content: bytes.NewReader(archive.Bytes())})
	if sandbox.KindOf(err) != sandbox.TooLarge {
		t.Error(err)
	}
	layer := static.NewLayer(archive.Bytes(), "application/vnd.oci.image.layer.v1.tar")
	if _, err := s.add(t.Context(), source{name: "a", image: imageOf(t, layer)}); err == nil {
		t.Error("accepted")
	}
}

// TestPush: an image that was pushed comes back with the same files and configuration.
func TestPush(t *testing.T) {
	server := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer server.Close()
	s := openStore(t)
	layer := layerOf(t, entry{tar.TypeDir, "tmp/", "", 0o1777}, entry{0, "bin/sh", "shell", 0o4755},
		entry{tar.TypeSymlink, "l", "bin", 0})
	i, err := s.add(t.Context(), source{name: "docker.io/library/a:latest", image: imageOf(t, layer)})
	if err != nil {
		t.Fatal(err)
	}
	to := strings.TrimPrefix(server.URL, "http://") + "/team/a:1"
	digest, err := s.Push(t.Context(), "a", to, nil)
	if err != nil {
		t.Fatal(err)
	}
	other := openStore(t)
	pulled, err := other.Pull(t.Context(), to, nil)
	if err != nil || pulled.Digest != digest {
		t.Fatalf("%+v, %q, %v", pulled, digest, err)
	}
	if a, b := content(t, s, i), content(t, other, pulled); strings.Join(a, " ") != strings.Join(b, " ") {
		t.Errorf("%q became %q", a, b)
	}
	for _, tree := range []string{s.Files(i.Tree), other.Files(pulled.Tree)} {
		info, err := os.Stat(tree + "/tmp")
		if err != nil || info.Mode() != fs.ModeDir|fs.ModeSticky|0o777 {
			t.Errorf("/tmp: %v, %v", info.Mode(), err)
		}
	}
	for _, bad := range []string{"Not A Name", to + "@" + digest} {
		if _, err := s.Push(t.Context(), "a", bad, nil); sandbox.KindOf(err) != sandbox.Invalid {
			t.Errorf("%s: %v", bad, err)
		}
	}
	server.Close()
	if _, err := s.Push(t.Context(), "a", to, nil); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Error(err)
	}
}

// TestPushEnds: a push to a registry that does not answer, a push and an export that are canceled end soon, and nothing
// of them is left.
func TestPushEnds(t *testing.T) {
	release := make(chan struct{})
	server := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { <-release }))
	defer server.Close()
	defer close(release)
	s := openStore(t)
	layer := layerOf(t, entry{0, "big", strings.Repeat("x", 1<<20), 0o644})
	if _, err := s.add(t.Context(), source{name: "docker.io/library/a:latest", image: imageOf(t, layer)}); err != nil {
		t.Fatal(err)
	}
	to := strings.TrimPrefix(server.URL, "http://") + "/team/a:1"
	s.stall = 100 * time.Millisecond
	if _, err := s.Push(t.Context(), "a", to, nil); sandbox.KindOf(err) != sandbox.Unavailable {
		t.Errorf("a registry that stalls: %v", err)
	}
	s.stall = stallTimeout
	ended := errors.New("ended")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(ended)
	if _, err := s.Push(ctx, "a", to, nil); !errors.Is(err, ended) {
		t.Errorf("a canceled push: %v", err)
	}
	if err := s.Export(ctx, "a", t.TempDir()+"/a.tar"); !errors.Is(err, ended) {
		t.Errorf("a canceled export: %v", err)
	}
	dir, err := os.MkdirTemp(t.TempDir(), "root")
	if err == nil {
		err = os.WriteFile(dir+"/big", make([]byte, 1<<20), 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	packing, cancel := context.WithCancelCause(t.Context())
	var n atomic.Int64
	_, end, err := fromRoot(packing, dir, 0, true, func() {
		if n.Add(1) == 2 {
			cancel(ended)
		}
	})
	end()
	if !errors.Is(err, ended) {
		t.Errorf("packing that is canceled: %v", err)
	}
}

// TestPlainRegistry: credentials for a registry on another machine are not sent without TLS, although the client would
// speak plain HTTP with a private address.
func TestPlainRegistry(t *testing.T) {
	var asked, knew atomic.Int32
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		asked.Add(1)
		if r.Header.Get("Authorization") != "" {
			knew.Add(1)
		}
		w.Header().Set("WWW-Authenticate", `Basic realm="x"`)
		w.WriteHeader(http.StatusUnauthorized)
	}))
	defer server.Close()
	dir := t.TempDir()
	t.Setenv("DOCKER_CONFIG", dir)
	ref, err := name.ParseReference("10.9.8.7:5000/app:a")
	if err != nil {
		t.Fatal(err)
	}
	config := `{"auths": {"10.9.8.7:5000": {"auth": "` + base64.StdEncoding.EncodeToString([]byte("a:secret")) + `"}}}`
	if err := os.WriteFile(filepath.Join(dir, "config.json"), []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	options, guard := openStore(t).registryOptions(t.Context(), ref)
	guard.DialContext = func(ctx context.Context, network, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, network, server.Listener.Addr().String())
	}
	guard.Proxy = nil
	defer guard.CloseIdleConnections()
	_, err = remote.Image(ref, options...)
	if err == nil || !strings.Contains(err.Error(), "speaks plain HTTP") || asked.Load() == 0 || knew.Load() > 0 {
		t.Errorf("%d of %d requests had the password: %v", knew.Load(), asked.Load(), err)
	}
}
