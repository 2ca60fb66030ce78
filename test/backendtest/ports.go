package backendtest

import (
	"bytes"
	"errors"
	"io"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// listeners is a program that listens in every way that programs do. It prints the ports, without those of missing
// families. It answers each connection with the received bytes, once the other half has ended.
const listeners = `exec /usr/bin/python3 -I -S -c 'if 1:
    import socket, threading
    def echo(c):
        got = b""
        while piece := c.recv(65536): got += piece
        c.sendall(got)
        c.close()
    def serve(l):
        while True: threading.Thread(target=echo, args=(l.accept()[0],), daemon=True).start()
    ports = []
    hosts = [(2, "127.0.0.1"), (2, "0.0.0.0"), (2, "localhost"), (10, "::1"), (10, "::")]
    for port, (family, host) in enumerate(hosts, 8001):
        try: l = socket.create_server((host, port), family=family, dualstack_ipv6=host == "::")
        except OSError: continue
        threading.Thread(target=serve, args=(l,)).start()
        ports.append(str(port))
    print(*ports, flush=True)
'`

// testPorts connects from the host to listeners on loopback in a box, with a network and without one.
func testPorts(t *testing.T, s *suite) {
	plain, other, linked := spec(), spec(), spec()
	if s.has(sandbox.FeatureNetwork) {
		linked.Network = networkHere(t, s.backend, linked)
	}
	stranger := dial(t, s.create(t, other))
	data := bytes.Repeat([]byte("0123456789abcde\n"), 64<<10) // 1 MiB, more than buffers and credit hold
	for _, sp := range []sandbox.Spec{plain, linked} {
		c := dial(t, s.create(t, sp))
		p := startShell(t, c, listeners)
		said := make(chan string, 1)
		go func() {
			_, _ = p.Stream(within(t), func(o guest.Output) error { // ends with the box
				if o.Stream == sandbox.Stdout {
					said <- string(o.Data)
				} else {
					t.Logf("%s", o.Data)
				}
				return nil
			}, true)
		}()
		ports := strings.Fields(<-said)
		if len(ports) < 3 {
			t.Fatalf("it listens on %q", ports)
		}
		t.Logf("it listens on %q", ports)
		for _, text := range ports {
			port, err := strconv.ParseUint(text, 10, 16)
			if err != nil {
				t.Fatal(err)
			}
			conn, err := c.Dial(within(t), uint16(port))
			if err != nil {
				t.Errorf("%d: %v", port, err)
				continue
			}
			go func() {
				if _, err := conn.Write(data); err == nil { // else the reader below sees less
					_ = conn.CloseWrite()
				}
			}()
			if got, err := io.ReadAll(conn); err != nil || !bytes.Equal(got, data) {
				t.Errorf("%d: %d bytes, %v", port, len(got), err)
			}
			conn.Close()
			if _, err := stranger.Dial(within(t), uint16(port)); !errors.Is(err, syscall.ECONNREFUSED) {
				t.Errorf("%d: in another sandbox: %v", port, err)
			}
		}
	}
}
