package engine_test

import (
	"errors"
	"io"
	"net"
	"strconv"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// serveEcho starts a server of echoes in a sandbox and waits until it listens.
func serveEcho(t *testing.T, s *engine.Sandbox, port int) *engine.Run {
	t.Helper()
	asks := command("python3", "-c", `import socket, sys, threading
def echo(c):
    while b := c.recv(1 << 16): c.sendall(b)
    c.close()
l = socket.create_server(("", int(sys.argv[1])), backlog=200)
while True: threading.Thread(target=echo, args=(l.accept()[0],)).start()`, strconv.Itoa(port))
	asks.Background = true
	x, err := s.Start(within(t), asks)
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "the server listens", func() bool {
		conn, err := s.DialPort(within(t), port)
		if err == nil {
			conn.Close()
		} else if !errors.Is(err, syscall.ECONNREFUSED) {
			t.Fatal(err)
		}
		return err == nil
	})
	return x
}

// TestDialPort: a sandbox is not idle while a connection to one of its ports is open, has few of them, and takes them
// with it. Another sandbox's ports are not its own.
func TestDialPort(t *testing.T) {
	rig := newRig(t, engine.Config{})
	s, other := rig.make(t, engine.Create{Name: "a"}), rig.make(t, engine.Create{Name: "b"})
	const port = 8080
	served := serveEcho(t, s, port)
	_, err := other.DialPort(within(t), port)
	refused(t, "nobody", err, sandbox.Unavailable, "nothing listens there")

	conn, err := s.DialPort(within(t), port)
	if err != nil {
		t.Fatal(err)
	}
	conn.Write([]byte("x"))
	conn.(interface{ CloseWrite() error }).CloseWrite()
	if echo, err := io.ReadAll(conn); err != nil || string(echo) != "x" {
		t.Errorf("echo: %q, %v", echo, err)
	}
	conn.Close()

	var open []net.Conn
	for range engine.MaxPortConnections {
		conn, err := s.DialPort(within(t), port)
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, conn)
	}
	_, err = s.DialPort(within(t), port)
	refused(t, "one too many", err, sandbox.Busy, "connections to ports of this sandbox")
	served.Cancel()
	if _, err := served.Wait(within(t)); err != nil {
		t.Error(err)
	}
	for _, conn := range open[1:] {
		conn.Close()
		conn.Close()
	}
	if i := s.Info(); !i.IdleEnds.IsZero() || rig.Census().Ports != 1 {
		t.Errorf("with one open: idle at %v, %d ports", i.IdleEnds, rig.Census().Ports)
	}
	open[0].Close()
	if i := s.Info(); i.IdleEnds.IsZero() || rig.Census().Ports != 0 {
		t.Errorf("with none open: idle at %v, %d ports", i.IdleEnds, rig.Census().Ports)
	}
	for _, bad := range []int{-1, 0, 65536} {
		_, err := s.DialPort(within(t), bad)
		refused(t, "a port", err, sandbox.Invalid, "not from 1 to 65535")
	}

	serveEcho(t, s, port)
	if conn, err = s.DialPort(within(t), port); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	conn.SetDeadline(time.Now().Add(time.Hour))
	ended := make(chan error)
	go func() {
		_, err := conn.Read(make([]byte, 1))
		ended <- err
	}()
	s.Close()
	if err := <-ended; err == nil {
		t.Error("a connection outlived its sandbox")
	}
	_, err = s.DialPort(within(t), port)
	refused(t, "after the end", err, sandbox.NotFound, "it has ended")
}
