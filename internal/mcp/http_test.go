package mcp_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/mcp"
)

// bearer sends a key with each request.
type bearer string

func (b bearer) RoundTrip(r *http.Request) (*http.Response, error) {
	r.Header.Set("Authorization", "Bearer "+string(b))
	return http.DefaultTransport.RoundTrip(r)
}

// TestHTTP: each session has a sandbox of its own, which is the key's and ends with the session; another key cannot
// reach the session.
func TestHTTP(t *testing.T) {
	e := newEngine(t)
	secrets := map[string]string{"alice": httpd.NewSecret(), "bob": httpd.NewSecret()}
	var keys []httpd.Key
	for name, secret := range secrets {
		key, err := httpd.NewKey(name, secret)
		if err != nil {
			t.Fatal(err)
		}
		keys = append(keys, key)
	}
	server, err := httpd.New(httpd.Config{Engine: e, Version: "test", Keys: httpd.NewKeyring(keys...)})
	if err != nil {
		t.Fatal(err)
	}
	closeAll := mcp.Add(server)
	t.Cleanup(closeAll)
	at := httptest.NewServer(server.Handler())
	t.Cleanup(at.Close)
	as := func(name string) *client {
		return connect(t, e, &sdk.StreamableClientTransport{Endpoint: at.URL + "/mcp",
			HTTPClient: &http.Client{Transport: bearer(secrets[name])}})
	}
	first, second := as("alice"), as("alice")
	first.code("x = 1")
	if o := first.code("x"); o.text != "=> 1" {
		t.Errorf("the state is lost: %+v", o)
	}
	if o := second.code("x"); o.Exception == nil {
		t.Errorf("two sessions share a sandbox: %+v", o)
	}
	living := func(owner string) int {
		list, _, err := e.Sandboxes(owner, nil, "", 0)
		if err != nil {
			t.Fatal(err)
		}
		return len(list)
	}
	if living("alice") != 2 || living("") != 0 {
		t.Errorf("alice has %d sandboxes", living("alice"))
	}
	status := func(key, session, body string) int {
		r, err := http.NewRequestWithContext(first.ctx, http.MethodPost, at.URL+"/mcp", strings.NewReader(body))
		if err != nil {
			t.Fatal(err)
		}
		r.Header = http.Header{"Content-Type": {"application/json"}, "Accept": {"application/json, text/event-stream"},
			"Mcp-Session-Id": {session}, "X-Api-Key": {key}}
		response, err := http.DefaultClient.Do(r)
		if err != nil {
			t.Fatal(err)
		}
		response.Body.Close()
		return response.StatusCode
	}
	const ping = `{"jsonrpc":"2.0","id":1000,"method":"ping"}`
	for _, c := range []struct {
		key, body string
		want      int
	}{{secrets["alice"], ping, 200}, {secrets["bob"], ping, 404}, {"", ping, 401}, {secrets["alice"], strings.Repeat(" ",
		5<<20) + ping, 413}} {
		if got := status(c.key, first.ID(), c.body); got != c.want {
			t.Errorf("%.20q: %d instead of %d", c.body, got, c.want)
		}
	}
	second.Close()
	for end := time.Now().Add(stepTimeout); living("alice") != 1; time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the sandbox of an ended session lives on")
		}
	}
	if o := first.code("x"); o.text != "=> 1" {
		t.Errorf("%+v", o)
	}
	closeAll()
	if got := status(secrets["alice"], "", ping); got != 503 || living("alice") != 0 {
		t.Errorf("a closed server answers %d; %d sandboxes are left", got, living("alice"))
	}
}
