package openaiapi_test

import (
	"bytes"
	"encoding/json"
	"io"
	"mime/multipart"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/openaiapi"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

// container is a container of a server over the fake backend.
type container struct {
	t      *testing.T
	server *httpd.Server
	url    string       // of the container
	client *http.Client // speaks HTTP/2
}

func newContainer(t *testing.T, config httpd.Config) *container {
	t.Helper()
	e, err := engine.New(engine.Config{Backends: []sandbox.Backend{backendtest.NewFake(t)}, Languages: lang.All()[:3]})
	if err != nil {
		t.Fatal(err)
	}
	config.Engine = e
	c := &container{t: t}
	if c.server, err = httpd.New(config); err != nil {
		t.Fatal(err)
	}
	openaiapi.Add(c.server)
	at := httptest.NewUnstartedServer(nil)
	at.Config = c.server.HTTPServer()
	at.EnableHTTP2 = true
	at.StartTLS()
	c.client = at.Client()
	t.Cleanup(func() {
		at.Close()
		e.Close()
	})
	c.url = at.URL + "/openai/v1/containers"
	var made struct{ ID string }
	if status, text := c.do("POST", "", `{"name":"work"}`); status != 200 || json.Unmarshal(text, &made) != nil {
		t.Fatalf("%d: %s", status, text)
	}
	c.url += "/" + made.ID
	return c
}

// do sends a request with JSON.
func (c *container) do(method, path, body string) (int, []byte) {
	c.t.Helper()
	return c.send(method, path, "application/json", strings.NewReader(body))
}

func (c *container) send(method, path, kind string, body io.Reader) (int, []byte) {
	c.t.Helper()
	req, err := http.NewRequestWithContext(c.t.Context(), method, c.url+path, body)
	if err != nil {
		c.t.Fatal(err)
	}
	req.Header.Set("Content-Type", kind)
	res, err := c.client.Do(req)
	if err != nil {
		c.t.Fatal(err)
	}
	defer res.Body.Close()
	text, err := io.ReadAll(res.Body)
	if err != nil {
		c.t.Fatal(err)
	}
	return res.StatusCode, text
}

// upload sends a file and returns its id.
func (c *container) upload(name, content string) string {
	c.t.Helper()
	var form bytes.Buffer
	w := multipart.NewWriter(&form)
	part, err := w.CreateFormFile("file", name)
	if err != nil {
		c.t.Fatal(err)
	}
	_, _ = io.WriteString(part, content) // to memory
	w.Close()
	var made struct{ ID string }
	if status, text := c.send("POST", "/files", w.FormDataContentType(), &form); status != 200 ||
		json.Unmarshal(text, &made) != nil {
		c.t.Fatalf("%d: %s", status, text)
	}
	return made.ID
}

// TestRoom: lists of files, their content and the output of commands are counted while a client reads them.
func TestRoom(t *testing.T) {
	const command = `"head -c 500000 /dev/zero | tr '\\0' x"`
	const output = `{"action":{"commands":[` + command + "," + command + "," + command + "]}}"
	for _, c := range []struct {
		room                 int64 // half of it for one client
		list, read, commands int
	}{{1 << 20, 413, 200, 413}, {64 << 20, 200, 200, 200}} {
		k := newContainer(t, httpd.Config{MaxAnswers: c.room})
		id := k.upload("a", strings.Repeat("x", 1<<20))
		if status, text := k.do("GET", "/files", ""); status != c.list {
			t.Errorf("room %d, list: %d, %.300s", c.room, status, text)
		}
		if status, text := k.do("GET", "/files/"+id+"/content", ""); status != c.read || len(text) != 1<<20 {
			t.Errorf("room %d, read: %d, %.300s", c.room, status, text)
		}
		if status, text := k.do("POST", "/shell_calls", output); status != c.commands {
			t.Errorf("room %d, commands: %d, %.300s", c.room, status, text)
		}
		for end := time.Now().Add(time.Minute); ; time.Sleep(time.Millisecond) {
			if bodies, answers := k.server.Held(); bodies+answers == 0 {
				break
			}
			if time.Now().After(end) {
				t.Fatal("something is held after the answers")
			}
		}
	}
}
