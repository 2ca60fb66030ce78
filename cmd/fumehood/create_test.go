package main

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
)

// fakeServer answers the requests of commands with one status and one text, and records the last request.
func fakeServer(t *testing.T, status int, text string) (c *commands, request *string) {
	request = new(string)
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		*request = r.URL.String() + " " + string(body)
		w.Header().Set(api.HeaderRun, "a1")
		w.WriteHeader(status)
		_, _ = io.WriteString(w, text)
	}))
	t.Cleanup(s.Close)
	return &commands{t, s.URL}, request
}

// TestCreateRequest: create sends the flags that are given, those with the value 0 too.
func TestCreateRequest(t *testing.T) {
	c, request := fakeServer(t, http.StatusCreated, `{"id":"b1"}`)
	for flags, want := range map[string]string{
		"":                             "",
		"--idle 0":                     `"lifetime":{"idle_s":0}`,
		"--idle 1h --max-age 0s":       `"lifetime":{"idle_s":3600,"ends_in_s":0}`,
		"--max-age 2h":                 `"lifetime":{"ends_in_s":7200}`,
		"--metadata a=b --metadata c=": `"metadata":{"a":"b","c":""}`,
	} {
		c.prints("b1\n", append([]string{"create"}, strings.Fields(flags)...)...)
		if *request != "/v1/sandboxes {"+want+"}" {
			t.Errorf("create %s sent %s, not %s", flags, *request, want)
		}
	}
	c.fails(`"a" is not NAME=VALUE`, "--metadata user=alice", "create", "--metadata", "a")
	c.run(exitFailure, "", "create", "--label", "a=b")
	c, request = fakeServer(t, http.StatusOK, `{"sandboxes":[]}`)
	c.run(0, "", "ps", "--metadata", "user=alice")
	if want := "/v1/sandboxes?limit=500&metadata=user%3Aalice "; !strings.HasPrefix(*request, want) {
		t.Errorf("ps requested %s, not %s", *request, want)
	}
}

// TestCutStream: the fix for a stream that broke off is a command line that follows the run.
func TestCutStream(t *testing.T) {
	c, _ := fakeServer(t, http.StatusOK, "id: 1\nevent: started\ndata: {\"id\":\"a1\"}\n\n")
	c.fails("the stream of events broke off", "fumehood logs -f agent-7 a1", "run", "--in", "agent-7", "-c", "1")
	c.fails("the stream of events broke off", "fumehood logs -f agent-7 a1", "logs", "-f", "agent-7", "a1")
}
