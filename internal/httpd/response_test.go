package httpd

import (
	"net/http"
	"net/http/httptest"
	"testing"
	"time"
)

// TestLateAnswerWithoutBody: an answer without a body comes, however long its handler has taken.
func TestLateAnswerWithoutBody(t *testing.T) {
	const timeout = 50 * time.Millisecond // for a client that takes nothing
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		out := NewResponse(w, timeout)
		time.Sleep(2 * timeout)
		out.WriteHeader(http.StatusNoContent)
	}))
	defer s.Close()
	r, err := s.Client().Get(s.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if r.StatusCode != http.StatusNoContent {
		t.Error(r.Status)
	}
}
