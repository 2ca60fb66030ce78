package duplex_test

import (
	"errors"
	"io"
	"net"
	"strings"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/duplex"
)

// pair returns the two ends of a TCP connection.
func pair(t *testing.T) (a, b *net.TCPConn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	near, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	far, err := l.Accept()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { near.Close(); far.Close() })
	return near.(*net.TCPConn), far.(*net.TCPConn)
}

func TestJoin(t *testing.T) {
	ours, a := pair(t)
	b, theirs := pair(t)
	joined := make(chan struct{})
	go func() {
		defer close(joined)
		duplex.Join(&duplex.Buffered{Conn: a, First: io.MultiReader(strings.NewReader("first "), a)}, b)
	}()
	ours.Write([]byte("up"))
	ours.CloseWrite()
	if got, err := io.ReadAll(theirs); err != nil || string(got) != "first up" {
		t.Errorf("%q, %v", got, err)
	}
	theirs.Write([]byte("down"))
	theirs.CloseWrite()
	if got, err := io.ReadAll(ours); err != nil || string(got) != "down" {
		t.Errorf("%q, %v", got, err)
	}
	<-joined

	ours, a = pair(t)
	b, theirs = pair(t)
	go duplex.Join(a, b)
	theirs.SetLinger(0)
	theirs.Close()
	if _, err := ours.Read(make([]byte, 1)); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the other end failed: %v", err)
	}
}
