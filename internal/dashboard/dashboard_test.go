package dashboard_test

import (
	"compress/gzip"
	"io"
	"net/http"
	"net/http/httptest"
	"regexp"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/dashboard"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

func serve(t *testing.T) *httptest.Server {
	t.Helper()
	e, err := engine.New(engine.Config{Backends: []sandbox.Backend{backendtest.NewFake(t)}})
	if err != nil {
		t.Fatal(err)
	}
	key, err := httpd.NewKey("alice", httpd.NewSecret())
	if err != nil {
		t.Fatal(err)
	}
	server, err := httpd.New(httpd.Config{Engine: e, Keys: httpd.NewKeyring(key)})
	if err != nil {
		t.Fatal(err)
	}
	dashboard.Add(server)
	web := httptest.NewServer(server.Handler())
	t.Cleanup(func() {
		web.Close()
		e.Close()
	})
	return web
}

func get(t *testing.T, url string, header http.Header) (*http.Response, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, nil)
	if err != nil {
		t.Fatal(err)
	}
	req.Header = header
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatal(err)
	}
	return res, string(text)
}

var reference = regexp.MustCompile(`(?:src|href)="(/ui/[^"]+)"`)

// TestPages checks that each page has a policy without inline scripts, and that all files it names exist. A key is not
// needed, also for a link on a page of another site.
func TestPages(t *testing.T) {
	web := serve(t)
	for _, page := range []string{"/", "/ui/index.html", "/ui/terminal.html", "/ui/frame.html"} {
		res, text := get(t, web.URL+page, http.Header{"Sec-Fetch-Site": {"cross-site"}})
		policy := res.Header.Get("Content-Security-Policy")
		if res.StatusCode != http.StatusOK || !strings.HasPrefix(res.Header.Get("Content-Type"), "text/html") {
			t.Errorf("%s: %s, %s", page, res.Status, res.Header.Get("Content-Type"))
		}
		if !strings.Contains(policy, "default-src 'none'; script-src 'self'; ") ||
			!strings.Contains(policy, "frame-ancestors ") || res.Header.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%s: policy %q", page, policy)
		}
		if page != "/ui/frame.html" && !strings.Contains(policy, "connect-src 'self'") {
			t.Errorf("%s: policy %q", page, policy)
		}
		names := reference.FindAllStringSubmatch(text, -1)
		if len(names) == 0 {
			t.Errorf("%s names no files", page)
		}
		for _, name := range names {
			res, _ := get(t, web.URL+name[1], http.Header{"Sec-Fetch-Site": {"same-origin"}})
			if res.StatusCode != http.StatusOK {
				t.Errorf("%s of %s: %s", name[1], page, res.Status)
			}
		}
	}
	res, _ := get(t, web.URL+"/ui/frame.html", nil)
	if policy := res.Header.Get("Content-Security-Policy"); !strings.HasPrefix(policy, "sandbox allow-scripts; ") ||
		strings.Contains(policy, "connect-src") || strings.Contains(policy, "allow-same-origin") {
		t.Errorf("the frame for HTML of sandboxes: policy %q", policy)
	}
}

// TestCompressed gets the same script with and without compression.
func TestCompressed(t *testing.T) {
	web := serve(t)
	packed, small := get(t, web.URL+"/ui/app.js", http.Header{"Accept-Encoding": {"br, gzip"}})
	plain, text := get(t, web.URL+"/ui/app.js", http.Header{"Accept-Encoding": {"identity"}})
	r, err := gzip.NewReader(strings.NewReader(small))
	if err != nil {
		t.Fatal(err)
	}
	unpacked, err := io.ReadAll(r)
	if err != nil || string(unpacked) != text || len(small) > len(text)/2 {
		t.Errorf("%d bytes compressed, %d plain: %v", len(small), len(text), err)
	}
	for _, res := range []*http.Response{packed, plain} {
		if res.Header.Get("Vary") != "Accept-Encoding" ||
			!strings.HasPrefix(res.Header.Get("Content-Type"), "text/javascript") {
			t.Error(res.Header)
		}
	}
	if packed.Header.Get("Content-Encoding") != "gzip" || plain.Header.Get("Content-Encoding") != "" {
		t.Error(packed.Header, plain.Header)
	}
}

func TestUnchangedPage(t *testing.T) {
	web := serve(t)
	res, _ := get(t, web.URL+"/", nil)
	tag := res.Header.Get("ETag")
	if res, text := get(t, web.URL+"/", http.Header{"If-None-Match": {tag}}); tag == "" ||
		res.StatusCode != http.StatusNotModified || text != "" {
		t.Errorf("ETag %q: %s", tag, res.Status)
	}
	if res, _ := get(t, web.URL+"/ui/nothing.js", nil); res.StatusCode == http.StatusOK {
		t.Error("a file that does not exist is served")
	}
}
