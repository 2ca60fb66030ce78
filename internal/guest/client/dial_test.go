package client_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest/client"
)

func dial(t *testing.T, c *client.Client, l net.Listener) (ours *client.Conn, theirs *net.TCPConn) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), hangTimeout)
	defer cancel()
	ours, err := c.Dial(ctx, uint16(l.Addr().(*net.TCPAddr).Port))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ours.Close() })
	conn, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { conn.Close() })
	conn.SetDeadline(time.Now().Add(hangTimeout))
	ours.SetDeadline(time.Now().Add(hangTimeout))
	return ours, conn.(*net.TCPConn)
}

func listen(t *testing.T, addr string) net.Listener {
	t.Helper()
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { l.Close() })
	return l
}

// TestDial: a connection has two halves that end alone, and an end that is told apart from a reset, in both directions.
func TestDial(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	big := make([]byte, 3<<20) // far more than the credit of a stream
	rand.NewChaCha8([32]byte{}).Read(big)
	for _, addr := range []string{"127.0.0.1:0", "[::1]:0", ":0", "0.0.0.0:0"} {
		l := listen(t, addr)
		ours, theirs := dial(t, c, l)
		go func() {
			ours.Write(big)
			ours.CloseWrite()
		}()
		got, err := io.ReadAll(theirs)
		if err != nil || !bytes.Equal(got, big) {
			t.Fatalf("%s: %d bytes up, %v", addr, len(got), err)
		}
		go func() { // the other half goes on
			theirs.Write(big)
			theirs.CloseWrite()
		}()
		if got, err = io.ReadAll(ours); err != nil || !bytes.Equal(got, big) {
			t.Fatalf("%s: %d bytes down, %v", addr, len(got), err)
		}
		if _, err := ours.Write([]byte("x")); !errors.Is(err, syscall.EPIPE) {
			t.Errorf("write after the end: %v", err)
		}
	}

	l := listen(t, "127.0.0.1:0")
	ours, theirs := dial(t, c, l)
	ours.Write([]byte("all of it"))
	ours.Close()
	if got, err := io.ReadAll(theirs); err != nil || string(got) != "all of it" {
		t.Errorf("after a close: %q, %v", got, err)
	}
	if _, err := ours.Read(make([]byte, 1)); !errors.Is(err, net.ErrClosed) {
		t.Errorf("read after close: %v", err)
	}

	ours, theirs = dial(t, c, l)
	theirs.SetLinger(0)
	theirs.Close()
	if _, err := io.ReadAll(ours); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after a reset: %v", err)
	}

	ours, theirs = dial(t, c, l)
	if _, err := readLate(ours); !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("a late read: %v", err)
	}
	written := make(chan int)
	go func() {
		n, err := ours.Write(make([]byte, 64<<20)) // more than all buffers on the way
		if !errors.Is(err, os.ErrDeadlineExceeded) {
			t.Errorf("a late write: %v", err)
		}
		written <- n
	}()
	if _, err := io.ReadFull(theirs, make([]byte, 1)); err != nil {
		t.Fatal(err)
	}
	ours.SetWriteDeadline(time.Unix(1, 0))
	if n := <-written; n == 0 || n == 64<<20 {
		t.Errorf("%d bytes were written", n)
	}
	c.Close() // as when a server dies
	if _, err := io.Copy(io.Discard, theirs); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the end of the host is no end of what it sent: %v", err)
	}
}

func readLate(c net.Conn) (int, error) {
	c.SetReadDeadline(time.Now().Add(time.Millisecond))
	return c.Read(make([]byte, 1))
}

// TestDialNobody: where nothing listens, or nobody accepts, the error says so.
func TestDialNobody(t *testing.T) {
	c := startGuest(t, 0).Client(t)
	l := listen(t, "127.0.0.1:0")
	port := uint16(l.Addr().(*net.TCPAddr).Port)
	l.Close()
	if _, err := c.Dial(t.Context(), port); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("%v", err)
	}
	if _, err := c.Dial(t.Context(), 0); err == nil {
		t.Error("port 0 was dialled")
	}
	full := fullListener(t)
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		time.Sleep(10 * time.Millisecond)
		cancel()
	}()
	if _, err := c.Dial(ctx, full); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	if _, err := c.List(t.Context()); err != nil { // the guest goes on
		t.Error(err)
	}
}

// fullListener is a port whose queue of connections is full, so that the kernel answers no more.
func fullListener(t *testing.T) uint16 {
	t.Helper()
	fd, err := syscall.Socket(syscall.AF_INET, syscall.SOCK_STREAM|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { syscall.Close(fd) })
	if err := errors.Join(syscall.Bind(fd, &syscall.SockaddrInet4{Addr: [4]byte{127, 0, 0, 1}}),
		syscall.Listen(fd, 0)); err != nil {
		t.Fatal(err)
	}
	addr, err := syscall.Getsockname(fd)
	if err != nil {
		t.Fatal(err)
	}
	port := addr.(*syscall.SockaddrInet4).Port
	for range 8 {
		conn, err := net.DialTimeout("tcp", (&net.TCPAddr{IP: net.IPv4(127, 0, 0, 1), Port: port}).String(),
			200*time.Millisecond)
		if err != nil {
			return uint16(port)
		}
		t.Cleanup(func() { conn.Close() })
	}
	t.Fatal("the queue never fills")
	return 0
}
