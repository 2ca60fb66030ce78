package httpapi_test

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// TestUnreadListing: an unread listing of files with long names in JSON holds little, and its readers get all of it.
func TestUnreadListing(t *testing.T) {
	r, alice, _ := newTwoClients(t, httpd.Config{WriteTimeout: stepTimeout})
	if res, text := r.do("POST", "/v1/sandboxes", `{"name":"work"}`, alice); res.StatusCode != 201 {
		t.Fatal(text)
	}
	const files = 9000
	make := fmt.Sprintf("import os\nfor i in range(%d): open('%%04d' %% i + chr(1) * 200, 'w').close()", files)
	if res, text := r.do("POST", "/v1/sandboxes/work/run", python(make), alice); res.StatusCode != 200 ||
		!strings.Contains(text, "succeeded") {
		t.Fatal(text)
	}
	const path = "/v1/sandboxes/work/files?list=1"
	for range 8 {
		_, line := r.hold("127.0.0.1", fmt.Sprintf("GET %s HTTP/1.1\r\nHost: localhost\r\nX-API-Key: %s\r\n\r\n",
			path, alice["X-API-Key"]))
		if !strings.Contains(line, "200") {
			t.Fatal(line)
		}
	}
	if _, held := r.server.Held(); held == 0 || held > 8*1<<20 {
		t.Errorf("%d bytes are counted for 8 listings", held)
	}
	res, text := r.do("GET", path, "", alice)
	if list := parse[api.FileList](t, text); res.StatusCode != 200 || len(list.Files) != files || list.More {
		t.Errorf("%s: %d files, more: %v", res.Status, len(list.Files), list.More)
	}
}

// TestLargeAnswer: an answer that is not a list is counted while its client does not read it.
func TestLargeAnswer(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	server, err := httpd.New(httpd.Config{Engine: r.engine, MaxAnswers: 12 << 20, WriteTimeout: stepTimeout})
	if err != nil {
		t.Fatal(err)
	}
	server.Handle(httpd.Route{Method: "GET", Path: "/large", Handler: func(w *httpd.Response, _ *http.Request) error {
		return server.WriteJSON(w, strings.Repeat("\x01", 700<<10))
	}})
	at := httptest.NewServer(server.Handler())
	defer at.Close()
	r.addr = strings.TrimPrefix(at.URL, "http://")
	conn, _ := r.hold("127.0.0.1", "GET /large HTTP/1.1\r\nHost: localhost\r\n\r\n")
	if _, held := server.Held(); held < 4<<20 {
		t.Errorf("%d bytes are counted", held)
	}
	if p := r.refused("GET", "/large", "", nil, 429); !strings.Contains(p.Detail, "slow readers") {
		t.Error(p.Detail)
	}
	conn.Close()
	eventually(t, "its room is free", func() bool { _, held := server.Held(); return held == 0 })
	if _, text := r.do("GET", "/large", "", nil); len(text) != 6*700<<10+3 {
		t.Errorf("%d bytes", len(text))
	}
}

// TestManyValues: a body with too many values is refused before it is decoded, and one with many is counted.
func TestManyValues(t *testing.T) {
	r := newRig(t, engine.Config{}, httpd.Config{})
	hosts := strings.Repeat(`"",`, 200_000)
	for _, body := range []string{`{"network":{"secrets":[{"name":"A","hosts":[` + hosts + `""]}]}}`,
		`{"args":` + strings.Repeat(`[`, 5000)} {
		if p := r.refused("POST", "/v1/run", body, nil, 413); !strings.Contains(p.Detail, "the body has more than") {
			t.Error(p.Detail)
		}
	}
}
