package httpd

import (
	"encoding/json"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/room"
)

// TestListAfter: a list after other fields is sent as it comes, and needs no room.
func TestListAfter(t *testing.T) {
	s, sent := &Server{answers: room.Halves(2)}, httptest.NewRecorder()
	l := s.NewListAfter(NewResponse(sent, time.Minute), struct{ Object string }{"list"}, "data")
	for range 100 {
		if err := l.Add(strings.Repeat("x", 10<<10)); err != nil {
			t.Fatal(err)
		}
	}
	var got struct {
		Object string
		Data   []string
	}
	if err := l.End(nil); err != nil || json.Unmarshal(sent.Body.Bytes(), &got) != nil || got.Object != "list" ||
		len(got.Data) != 100 {
		t.Errorf("%v: %.100s", err, sent.Body)
	}
}
