package e2bapi_test

import (
	"crypto/sha256"
	"encoding/base64"
	"net/http"
	"net/url"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestSignedURL: a signature finds its sandbox among all, also without the id. With the id of another one, for another
// path, or after its sandbox ended, it permits nothing.
func TestSignedURL(t *testing.T) {
	r := newRig(t, httpd.Config{})
	otherID, otherToken := r.create()
	signed := func(path, token string) string {
		sum := sha256.Sum256([]byte(path + ":read:user:" + token))
		return "/files?username=user&path=" + url.QueryEscape(path) + "&signature=" +
			url.QueryEscape("v1_"+base64.RawStdEncoding.EncodeToString(sum[:]))
	}
	for _, c := range []struct {
		name, query, id string
		want            int
	}{
		{"its sandbox by the signature", signed("/nothing", r.token), "", http.StatusNotFound}, // the file
		{"again", signed("/nothing", r.token), "", http.StatusNotFound},
		{"its sandbox by the id", signed("/nothing", otherToken), otherID, http.StatusNotFound},
		{"another sandbox", signed("/nothing", r.token), otherID, http.StatusUnauthorized},
		{"no sandbox", signed("/nothing", r.token), string(sandbox.NewID()), http.StatusUnauthorized},
		{"a wrong token", signed("/nothing", r.token+"x"), "", http.StatusUnauthorized},
		{"no signature", "/files?path=/nothing&signature=v1_", "", http.StatusUnauthorized},
	} {
		header := http.Header{}
		if c.id != "" {
			header.Set("E2b-Sandbox-Id", c.id)
			header.Set("E2b-Sandbox-Port", "49983")
		}
		if status, text := r.do("GET", c.query, "", nil, header); status != c.want {
			t.Errorf("%s: %d, %s", c.name, status, text)
		}
	}
	r.do("DELETE", "/sandboxes/"+r.id, "", nil, nil)
	if status, text := r.do("GET", signed("/nothing", r.token), "", nil, nil); status != http.StatusUnauthorized {
		t.Errorf("after the end: %d, %s", status, text)
	}
}
