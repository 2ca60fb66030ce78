package client

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The tests of cmd/fumehood run this client against a real server. These tests have servers that misbehave.

func open(t *testing.T, handler http.HandlerFunc) *Client {
	server := httptest.NewServer(handler)
	t.Cleanup(server.Close)
	c, err := New(Config{Server: server.URL, Key: "fhx_secret"})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

// TestStrangeServers: the client reports an answer that is not from Fumehood, and sends the key to no other server.
func TestStrangeServers(t *testing.T) {
	other := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("it received a request with %v", r.Header)
	}))
	defer other.Close()
	for name, test := range map[string]struct {
		handler http.HandlerFunc
		want    string
	}{
		"another program": {func(w http.ResponseWriter, _ *http.Request) { http.Error(w, "<html>", 404) },
			"404 Not Found, which is not an answer of Fumehood"},
		"a redirect": {http.RedirectHandler(other.URL, http.StatusTemporaryRedirect).ServeHTTP,
			"307 Temporary Redirect, which is not"},
		"not JSON": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "<html>") },
			"its answer broke off"},
		"half an answer": {func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, `{"id":`) },
			"its answer broke off"},
	} {
		_, err := open(t, test.handler).Sandbox(t.Context(), "box")
		if sandbox.KindOf(err) != sandbox.Unavailable || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, address := range []string{"http://me:s3cret@host", "me:s3cret@host"} {
		if _, err := New(Config{Server: address}); err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", address, err)
		}
	}
	gone := httptest.NewServer(nil)
	gone.Close()
	c, err := New(Config{Server: gone.URL})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := c.Sandbox(t.Context(), "box"); sandbox.KindOf(err) != sandbox.Unavailable ||
		sandbox.FixOf(err) != "start one with: fumehood serve" {
		t.Error(err)
	}
}

// TestDialPortTLS: a port is reached through a server or a proxy that speaks TLS and prefers HTTP/2. Each half of the
// connection closes separately there too.
func TestDialPortTLS(t *testing.T) {
	server := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer fhx_secret" || r.URL.Path != "/v1/sandboxes/box/ports/8000" {
			t.Errorf("asked for %s with %v", r.URL, r.Header)
		}
		conn, early, err := http.NewResponseController(w).Hijack()
		if err != nil {
			t.Error(err)
			return
		}
		defer conn.Close()
		io.WriteString(conn, "HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: tcp\r\n\r\n")
		got, err := io.ReadAll(early)
		fmt.Fprintf(conn, "%s, %v", got, err)
	}))
	server.EnableHTTP2 = true
	server.StartTLS()
	defer server.Close()
	c, err := New(Config{Server: server.URL, Key: "fhx_secret"})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.DialPort(t.Context(), "box", 8000); err == nil || !strings.Contains(err.Error(), "certificate") {
		t.Errorf("a server with an unknown authority: %v", err)
	}
	c.http.Transport.(*http.Transport).TLSClientConfig = server.Client().Transport.(*http.Transport).TLSClientConfig
	conn, err := c.DialPort(t.Context(), "box", 8000)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	io.WriteString(conn, "hello")
	if err := conn.CloseWrite(); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(conn); string(got) != "hello, <nil>" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
}

// TestCutStream: a stream without its last event is an error for a caller that waits for the end.
func TestCutStream(t *testing.T) {
	c := open(t, func(w http.ResponseWriter, _ *http.Request) {
		w.Header().Set(api.HeaderRun, "a")
		io.WriteString(w, "id: 1\nevent: stdout\ndata: {\"offset\":0,\"text\":\"x\"}\n\nevent: stdout\ndata: {\"te")
	})
	var seen string
	take := func(e Event) error {
		if e.Output != nil {
			seen += string(e.Output.Data)
		}
		return nil
	}
	if err := c.Stream(t.Context(), "box", api.SandboxRunRequest{}, take); sandbox.KindOf(err) != sandbox.Unavailable ||
		!errors.Is(err, ErrCut) || strings.Contains(err.Error(), "fumehood") || seen != "x" {
		t.Errorf("%v after %q", err, seen)
	}
	err := c.StreamOneShot(t.Context(), api.RunRequest{}, nil, take)
	if !errors.Is(err, ErrCut) || !strings.HasPrefix(sandbox.FixOf(err), "run it again") {
		t.Error(err, sandbox.FixOf(err))
	}
	if err := c.Follow(t.Context(), "box", "a", From{}, take); err != nil {
		t.Error(err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(io.ErrClosedPipe)
	if err := c.Stream(ctx, "box", api.SandboxRunRequest{}, take); err != io.ErrClosedPipe {
		t.Error(err)
	}
}

// TestExceptionEvent: an uncaught exception is a separate event.
func TestExceptionEvent(t *testing.T) {
	var got []Event
	err := readEvents(strings.NewReader("event: exception\ndata: {\"time_ms\":1,\"name\":\"E\",\"value\":\"v\"}\n\n"),
		func(e Event) error {
			got = append(got, e)
			return nil
		})
	if err != nil || len(got) != 1 || got[0].Exception == nil || got[0].Exception.Name != "E" ||
		got[0].Exception.Value != "v" {
		t.Errorf("%+v, %v", got, err)
	}
}

// FuzzOutput: the quick reader of output reads what encoding/json reads.
func FuzzOutput(f *testing.F) {
	f.Add(`{"time_ms":1.5,"offset":7,"text":"a\\\"\u001b\n€"}`)
	f.Add(`{"time_ms":1,"offset":0,"text":"\ufffd","base64":"/w=="}`)
	f.Add(`{"time_ms":1,"offset":0,"text":"a","text":"b"}`)
	f.Fuzz(func(t *testing.T, event string) {
		var want struct {
			Offset int64
			Text   string
			Base64 *[]byte
		}
		wrong := json.Unmarshal([]byte(event), &want)
		offset, text, ok := quickOutput([]byte(event), nil)
		if ok && wrong == nil && (offset != want.Offset || string(text) != want.Text || want.Base64 != nil) {
			t.Errorf("%s: %d, %q", event, offset, text)
		}
	})
}

// FuzzEvents: whatever a server sends, each event is handed over once, and its pieces are bytes.
func FuzzEvents(f *testing.F) {
	f.Add("id: 1\nevent: stdout\ndata: {\"text\":\"a\",\"base64\":\"/w==\"}\n\n: beat\n\n" +
		"id: 2\nevent: done\ndata: {\"status\":\"failed\",\"exit_code\":1}\n\n")
	f.Add("event: result\ndata: {\"main\":true,\"data\":{\"text/plain\":\"1\"}}\n\nevent: problem\ndata: {\"kind\":\"moon\"}\n\n")
	f.Fuzz(func(t *testing.T, stream string) {
		seen := 0
		err := readEvents(strings.NewReader(stream), func(e Event) error {
			if seen++; e.Name == "" || e.Name == "problem" && e.Failed == nil || e.Name == "done" && e.Done == nil {
				t.Errorf("%+v", e)
			}
			return nil
		})
		if most := strings.Count(stream, "event"); err == nil && seen > most {
			t.Errorf("%d events of %d", seen, most)
		}
	})
}
