package main

import (
	"bytes"
	"net/http"
	"runtime/pprof"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestLabelsEnd: after requests have ended, no goroutine of the server has the label of their client.
func TestLabelsEnd(t *testing.T) {
	s := startServer(t, "--max-network", "full")
	for _, c := range []struct {
		method, path, body string
		status             int
	}{
		{"POST", "/v1/sandboxes", `{"name":"a","network":{"mode":"full"}}`, 201},
		{"POST", "/v1/sandboxes/a/contexts", `{"language":"python"}`, 201},
		{"POST", "/v1/sandboxes/a/run", `{"code":"print(1)","language":"python"}`, 200},
		{"PATCH", "/v1/sandboxes/a", `{"network":{"mode":"full","deny":["a.test"]}}`, 200},
		{"POST", "/v1/run", `{"command":["true"]}`, 200},
	} {
		if status, body := s.send(t, c.method, c.path, c.body); status != c.status {
			t.Fatal(c.method, c.path, status, body)
		}
	}
	http.DefaultClient.CloseIdleConnections()
	// a handler may still return, and its connection close
	labelled := ""
	for end := time.Now().Add(20 * time.Second); time.Now().Before(end); time.Sleep(10 * time.Millisecond) {
		var all bytes.Buffer
		if err := pprof.Lookup("goroutine").WriteTo(&all, 1); err != nil {
			t.Fatal(err)
		}
		stacks := strings.Split(all.String(), "\n\n")
		labelled = strings.Join(slices.DeleteFunc(stacks, func(stack string) bool {
			return !strings.Contains(stack, "# labels:")
		}), "\n")
		if labelled == "" {
			return
		}
	}
	t.Error(labelled)
}
