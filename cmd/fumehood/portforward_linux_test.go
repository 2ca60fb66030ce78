package main

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/client"
)

// forwardTo runs port-forward until stop, and returns the address on which it listens.
func (c *commands) forwardTo(args ...string) (addr string, out *said, stop func() int) {
	c.t.Helper()
	out = &said{}
	interrupts, exit := make(chan os.Signal, 2), make(chan int, 1)
	m := testApp(c.t).Main
	m.Stdout, m.Stderr, m.Interrupts = out, out, interrupts
	go func() {
		exit <- m.Run(context.Background(), append([]string{"port-forward", "--server", c.server}, args...))
	}()
	stop = sync.OnceValue(func() int {
		interrupts <- os.Interrupt
		return <-exit
	})
	c.t.Cleanup(func() { stop() })
	return out.wait(c.t, `forwarding (127\.0\.0\.1:\d+) -> a:\d+\n`)[1], out, stop
}

// breaking is a listener that accepts one connection.
type breaking struct {
	net.Listener
	accepted bool
}

func (b *breaking) Accept() (net.Conn, error) {
	if b.accepted {
		return nil, errors.New("too many open files")
	}
	b.accepted = true
	return b.Listener.Accept()
}

// TestPortForwardEnds: when the listener fails, the command ends its open connections and itself.
func TestPortForwardEnds(t *testing.T) {
	listen := func() net.Listener {
		l, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { l.Close() })
		return l
	}
	silent, local := listen(), listen()
	client, err := client.New(client.Config{Server: "http://" + silent.Addr().String()})
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	conn, err := net.Dial("tcp4", local.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	ended := make(chan error, 1)
	a := testApp(t)
	go func() {
		ended <- a.forwardAll(t.Context(), &breaking{Listener: local}, client, &forwarding{name: "a", port: 8000})
	}()
	select {
	case err = <-ended:
	case <-time.After(time.Minute):
		t.Fatal("it waits for a connection that does not end")
	}
	if err == nil || err.Error() != "too many open files" {
		t.Error(err)
	}
}

// TestPortForward: a local port reaches a port in a sandbox without a network, for many concurrent connections whose
// halves end independently.
func TestPortForward(t *testing.T) {
	c := livingServer(t)
	c.run(0, "", "create", "--name", "a")
	c.run(0, "", "exec", "--detach", "a", "--", "/usr/bin/python3", "-c", `import socket, threading
def echo(c):
    got = b""
    while piece := c.recv(65536): got += piece
    c.sendall(got)
    c.close()
l = socket.create_server(("127.0.0.1", 8000), backlog=100)
while True: threading.Thread(target=echo, args=(l.accept()[0],), daemon=True).start()`)
	addr, out, stop := c.forwardTo("a", "0:8000")
	data := bytes.Repeat([]byte("0123456789abcde\n"), 32<<10)
	echo := func() (string, error) {
		conn, err := net.Dial("tcp", addr)
		if err != nil {
			return "", err
		}
		defer conn.Close()
		go func() {
			conn.Write(data)
			conn.(*net.TCPConn).CloseWrite()
		}()
		got, err := io.ReadAll(conn)
		return string(got), err
	}
	// the server inside may not listen yet: then the connection is reset, and a warning says why
	for ready := false; !ready; {
		got, err := echo()
		ready = err == nil && got == string(data)
	}
	var all sync.WaitGroup
	for range 40 {
		all.Go(func() {
			if got, err := echo(); err != nil || got != string(data) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
		})
	}
	all.Wait()
	if t.Failed() {
		t.Fatal(out.String())
	}
	if text := strings.ReplaceAll(out.String(), "nothing listens there in the sandbox", ""); strings.Count(text,
		"warning") > 1 {
		t.Errorf("%s", text)
	}

	nobody, said, _ := c.forwardTo("a", "0:8001")
	if conn, err := net.Dial("tcp", nobody); err != nil { // a reset may come that soon
		t.Log(err)
	} else if got, err := io.ReadAll(conn); err == nil {
		t.Errorf("from a port where nothing listens: %q", got)
	}
	said.wait(t, `warning: port 8001: nothing listens there in the sandbox`)
	if conn, err := net.Dial("tcp", addr); err != nil {
		t.Error(err)
	} else if code := stop(); code != exitCanceled { // while a connection is open
		t.Errorf("exit code %d", code)
	} else {
		conn.Close()
	}
	if _, err := net.Dial("tcp", addr); err == nil {
		t.Error("it still listens")
	}

	res, err := http.Get(c.server + "/v1/sandboxes/a/ports/8001/")
	if err != nil {
		t.Fatal(err)
	}
	res.Body.Close()
	if res.StatusCode != http.StatusBadGateway {
		t.Errorf("%s", res.Status)
	}
	for _, bad := range []string{"x", "0", "70000", "1:2:3", "1:", ":1"} {
		if _, errs := c.run(exitFailure, "", "port-forward", "a", bad); !strings.Contains(errs, "LOCAL:PORT") {
			t.Errorf("%s: %s", bad, errs)
		}
	}
	c.run(exitFailure, "", "port-forward", "none", "8000")
	c.run(0, "", "rm", "a")
	if conn, err := net.Dial("tcp", nobody); err == nil { // its sandbox is gone, so the command ends
		conn.Close()
	}
	said.wait(t, `it has ended: it was removed`)
}
