package httpd

import (
	"net/http/httptest"
	"testing"
)

// TestLoggedPath: no API key in a path is logged, also if it is escaped.
func TestLoggedPath(t *testing.T) {
	for path, want := range map[string]string{
		"/v1/a%2Fb":                    "/v1/a%2Fb",
		"/v1/fhx_c2VjcmV0/x":           "/v1/fhx_.../x",
		"/v1/a%20e2b_c2VjcmV0":         "/v1/a%20e2b_...",
		"/v1/%66hx_c2VjcmV0":           "/v1/fhx_...",
		"/v1/k=fhx%5Fc2VjcmV0%2F":      "/v1/k=fhx_...",
		"/v1/a%2Ffhx_c2Vj%2Fe2b_cmV0/": "/v1/a%2Ffhx_.../",
	} {
		if got := loggedPath(httptest.NewRequest("GET", path, nil)); got != want {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
}
