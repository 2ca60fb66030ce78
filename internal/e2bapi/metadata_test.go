package e2bapi_test

import (
	"fmt"
	"net/http"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// TestFileMetadata: the metadata of a file is kept by its path, and follows the calls of this wire that change it.
func TestFileMetadata(t *testing.T) {
	r := newRig(t, httpd.Config{})
	const kind, list = "application/octet-stream", "/filesystem.Filesystem/"
	write := func(path string, headers ...string) (int, string) {
		h := r.to(envd)
		for i := 0; i < len(headers); i += 2 {
			h[http.CanonicalHeaderKey("X-Metadata-"+headers[i])] = []string{headers[i+1]}
		}
		status, text := r.do("POST", "/files?path="+path, kind, []byte("x"), h)
		return status, string(text)
	}
	has := func(path string, want bool) {
		t.Helper()
		if status, text := r.call(list+"Stat", `{"path":"`+path+`"}`); status != 200 ||
			strings.Contains(string(text), `"metadata":{"by":"me"}`) != want {
			t.Errorf("%s: %d: %s", path, status, text)
		}
	}
	if status, text := write("dir/a", "By", "me"); status != 200 || !strings.Contains(text, `"metadata":{"by":"me"}`) {
		t.Fatalf("%d: %s", status, text)
	}
	has("dir/a", true)
	has("/workspace/dir/a", true)
	if _, text := r.call(list+"ListDir", `{"path":"dir"}`); !strings.Contains(string(text), `{"by":"me"}`) {
		t.Errorf("%s", text)
	}
	for _, c := range []struct{ method, message, path string }{
		{"Move", `{"source":"dir","destination":"new"}`, "new/a"},
		{"Move", `{"source":"new/a","destination":"new/a"}`, "new/a"},
		{"Move", `{"source":"new/a","destination":"b"}`, "b"},
	} {
		if status, text := r.call(list+c.method, c.message); status != 200 {
			t.Fatalf("%d: %s", status, text)
		}
		has(c.path, true)
	}
	if status, text := write("b"); status != 200 || strings.Contains(text, "metadata") {
		t.Errorf("%d: %s", status, text)
	}
	has("b", false)
	write("dir/c", "by", "me")
	r.call(list+"Remove", `{"path":"dir"}`)
	write("dir/c")
	has("dir/c", false)
	for name, headers := range map[string][]string{"no name": {"", "x"}, "no ASCII": {"a", "h\xe9"},
		"long": {"a", strings.Repeat("x", 5000)}} {
		if status, text := write("bad", headers...); status != 400 {
			t.Errorf("%s: %d: %s", name, status, text)
		}
	}
	if status, text := r.call(list+"Stat", `{"path":"bad"}`); status != 404 {
		t.Errorf("%d: %s", status, text)
	}
}

// TestMetadataRoom: all metadata is bounded, and an ended sandbox gives its part back.
func TestMetadataRoom(t *testing.T) {
	r := newRig(t, httpd.Config{})
	form := func(n int) (int, []byte) {
		var body strings.Builder
		for i := range 100 {
			const part = "--b\r\nContent-Disposition: form-data; name=\"file\"; filename=\"%d/%d\"\r\n\r\n\r\n"
			fmt.Fprintf(&body, part, n, i)
		}
		body.WriteString("--b--\r\n")
		h := r.to(envd)
		h.Set("X-Metadata-A", strings.Repeat("x", 4000))
		return r.do("POST", "/files", "multipart/form-data; boundary=b", []byte(body.String()), h)
	}
	forms := 0
	for ; ; forms++ {
		status, text := form(forms)
		if status == http.StatusForbidden {
			break
		}
		if status != http.StatusOK {
			t.Fatalf("%d: %s", status, text)
		}
	}
	r.do("DELETE", "/sandboxes/"+r.id, "", nil, nil)
	r.id, r.token = r.create()
	if status, text := form(0); forms == 0 || status != http.StatusOK {
		t.Errorf("after %d forms and their sandbox: %d: %s", forms, status, text)
	}
}
