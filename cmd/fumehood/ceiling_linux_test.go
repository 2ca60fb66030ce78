package main

import (
	"fmt"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"
)

// TestNetworkCeiling: no request opens more than the operator lists, by any endpoint. A run of the command line without
// a server may.
func TestNetworkCeiling(t *testing.T) {
	isNetworkReady(t)
	o := newOutside(t)
	state := t.TempDir()
	if err := os.Chmod(state, 0o700); err != nil { // a test may have no umask
		t.Fatal(err)
	}
	start := func(args ...string) *served {
		return startServerWith(t, func(m *Main) { m.Gate = o.gate() }, append([]string{"--backend", "native",
			"--allow-unenforced", "memory", "--state-dir", state}, args...)...)
	}
	s := start()
	refused := func(method, path, body, param, hint string) {
		t.Helper()
		status, problem := s.send(t, method, path, body)
		if status != 400 || problem["param"] != param || problem["kind"] != "invalid" ||
			!strings.Contains(fmt.Sprint(problem["hint"]), hint) {
			t.Errorf("%s %s %s: %d %v", method, path, body, status, problem)
		}
	}
	run := func(network string) string {
		return `{"language": "python", "code": "` + strings.ReplaceAll(fmt.Sprintf(fetch, "api"), "'", `\"`) +
			`", "network": ` + network + `}`
	}
	const metadata = `{"allow": ["api.test", "169.254.169.254"]}`
	const hint = "have the operator start the server with --network-allow public,169.254.169.254"
	if status, body := s.post(t, "/v1/run", run(`{"allow": ["api.test"]}`)); status != 200 ||
		body["status"] != "succeeded" {
		t.Errorf("%d %v", status, body)
	}
	for name, network := range map[string]string{"a": `{"mode": "full"}`,
		"b": `{"allow": ["api.test", "other.test"]}`} {
		if status, body := s.post(t, "/v1/sandboxes", `{"name": "`+name+`", "network": `+network+`}`); status != 201 {
			t.Errorf("%d %v", status, body)
		}
	}
	refused(http.MethodPost, "/v1/run", run(metadata), "network.allow[1]", hint)
	refused(http.MethodPost, "/v1/sandboxes", `{"network": `+metadata+`}`, "network.allow[1]", hint)
	refused(http.MethodPatch, "/v1/sandboxes/a", `{"network": `+metadata+`}`, "network.allow[1]", hint)
	refused(http.MethodPatch, "/v1/sandboxes/a", `{"network": {"mode": "full", "allow": ["192.168.0.0/16"]}}`,
		"network.allow[0]", "have the operator ")
	if status, body := s.send(t, http.MethodGet, "/v1/capabilities", ""); status != 200 ||
		fmt.Sprint(body["network"], body["network_allow"]) != "[none restricted full] [public]" {
		t.Errorf("%d %v", status, body)
	}
	c := &commands{t, s.url}
	c.fails("--allow: this server does not open 10.0.0.1, which is a private address", hint[:40], "create", "--allow",
		"10.0.0.1")
	s.stop(t)
	s.exit <- 0 // for the end of the test

	s = start("--max-network", "restricted", "--network-allow", "api.test,169.254.169.254")
	refused(http.MethodPost, "/v1/run", run(`{"mode": "full"}`), "network.mode", "--max-network full")
	refused(http.MethodPost, "/v1/run", run(`{"allow": ["other.test"]}`), "network.allow[0]",
		"--network-allow api.test,169.254.169.254,other.test")
	if status, body := s.post(t, "/v1/run", run(metadata)); status != 200 || body["status"] != "succeeded" {
		t.Errorf("%d %v", status, body)
	}
	// The sandboxes of the first server could do more.
	for _, name := range []string{"a", "b"} {
		for state := any(nil); state != "ready"; time.Sleep(10 * time.Millisecond) { // until it is taken over
			_, body := s.send(t, http.MethodGet, "/v1/sandboxes/"+name, "")
			state = body["state"]
		}
	}
	c = &commands{t, s.url}
	if out, _ := c.run(0, "", "run", "--in", "b", "-c", fmt.Sprintf(fetch, "api")); out != "api.test/x\n" {
		t.Errorf("%q", out)
	}
	if _, errs := c.run(1, "", "run", "--in", "b", "-c", fmt.Sprintf(fetch, "other")); !strings.Contains(errs,
		"other.test was refused by the network policy: the operator of this server does not allow it.") {
		t.Errorf("%s", errs)
	}
	if _, errs := c.run(1, "", "run", "--in", "a", "-c", fmt.Sprintf(fetch, "api")); !strings.Contains(errs,
		"api.test was refused by the network policy") {
		t.Errorf("%s", errs)
	}
	if !strings.Contains(s.said.String(), "this server opens less than the network policy of a sandbox") {
		t.Errorf("it said %s", s.said)
	}
	if status, body := s.send(t, http.MethodGet, "/v1/capabilities", ""); status != 200 ||
		fmt.Sprint(body["network"], body["network_allow"]) != "[none restricted] [api.test 169.254.169.254]" {
		t.Errorf("%d %v", status, body)
	}
}
