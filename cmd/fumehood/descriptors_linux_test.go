package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/egress/egresstest"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// takeConnections opens connections until ten in a row fail, prints how many it holds, and holds them.
const takeConnections = `
import socket, time
held, failed = [], 0
while failed < 10:
    try: held.append(socket.create_connection(("93.184.216.50", 25), 5)); failed = 0
    except OSError: failed += 1; time.sleep(0.05)
print(len(held), flush=True)
time.sleep(600)
`

// keysFile makes an API key for each name.
func keysFile(t *testing.T, names ...string) (path string, secrets []string) {
	t.Helper()
	var lines strings.Builder
	for _, name := range names {
		secret := httpd.NewSecret()
		key, err := httpd.NewKey(name, secret)
		if err != nil {
			t.Fatal(err)
		}
		fmt.Fprintln(&lines, name, key)
		secrets = append(secrets, secret)
	}
	path = filepath.Join(t.TempDir(), "keys")
	if err := os.WriteFile(path, []byte(lines.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	return path, secrets
}

// TestDescriptors: sandboxes of one key that open all the connections that they can leave descriptors for the server:
// for its clients, for sandboxes, and for the connections of another key.
func TestDescriptors(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: it takes 8 s; package egress tests the shares before the gate alone")
	}
	if !egresstest.Inside(t) {
		return
	}
	isNetworkReady(t)
	const most = 150
	w := egresstest.New(t)
	w.Listen(25) // it accepts nothing: the kernel does
	path, secrets := keysFile(t, "taker", "other")
	d := &dayServer{t: t, dir: shortDir(t), backend: "native", key: secrets[0],
		flags: []string{"--api-key-file", path, "--connections-per-key", strconv.Itoa(most), "--slots", "8"}}
	d.start()
	taker, other := d.client, d.as(secrets[1])
	defer func() {
		for c, names := range map[*client.Client][]string{taker: {"t0", "t1", "t2"}, other: {"o"}} {
			for _, name := range names {
				_ = c.Remove(context.Background(), name)
			}
		}
		d.stop(os.Interrupt)
	}()
	create := func(c *client.Client, name string, connections int) error {
		p := sandbox.NetworkPolicy{Mode: sandbox.NetworkFull, MaxConnections: connections}
		_, _, err := c.Create(t.Context(), api.SandboxRequest{Name: name,
			Isolation: api.Isolation{Network: answer.NetworkRequest(p)}})
		return err
	}
	if err := create(taker, "t", 65535); err == nil || !strings.Contains(err.Error(), "65535 is more than 150") {
		t.Errorf("more than the share of a key: %v", err)
	}
	held := 0
	for i := range 3 {
		name := fmt.Sprint("t", i)
		if err := create(taker, name, 100); err != nil {
			t.Fatal(err)
		}
		run, err := taker.Start(t.Context(), name, api.SandboxRunRequest{
			Program: api.Program{Command: []string{"/usr/bin/python3", "-c", takeConnections}}})
		if err != nil {
			t.Fatal(err)
		}
		out := ""
		waitUntil(t, "number of connections", func() bool {
			out = strings.TrimSpace(logOf(t, taker, name, string(run.ID)))
			return out != ""
		})
		var n int
		fmt.Sscan(out, &n)
		held += n
	}
	if held != most {
		t.Errorf("the sandboxes of one key hold %d connections, not %d", held, most)
	}
	report, err := taker.Network(t.Context(), "t2")
	if err != nil || len(report.Attempts) == 0 || !strings.Contains(report.Attempts[0].Reason, "of its owner") {
		t.Errorf("the log does not show the refusals: %+v, %v", report.Attempts, err)
	}
	if err := create(other, "o", 0); err != nil {
		t.Fatalf("another key cannot create a sandbox: %v", err)
	}
	a, err := other.Run(t.Context(), "o", api.SandboxRunRequest{Program: api.Program{Command: []string{
		"/usr/bin/python3", "-c", "import socket; socket.create_connection(('93.184.216.50', 25), 5); print('in')"}}})
	if err != nil || a.Stdout != "in\n" {
		t.Errorf("another key's sandbox does not reach its network: %+v, %v", a, err)
	}
}
