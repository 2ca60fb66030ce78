package httpd

import (
	"net"
	"testing"
	"time"
)

// TestWhenGone: a client that has ended its half of a connection is still there. One that resets it is not, also while
// the server does not read.
func TestWhenGone(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	client, err := net.Dial("tcp", l.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	server, err := Listen(l).Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer server.Close()
	if _, err := client.Write([]byte("unread")); err != nil {
		t.Fatal(err)
	}
	tcp := client.(*net.TCPConn)
	_ = tcp.CloseWrite()
	raw, err := socketOf(server).(*net.TCPConn).SyscallConn()
	if err != nil {
		t.Fatal(err)
	}
	if hungUp(raw) {
		t.Error("a client that only ended its half has left")
	}
	_ = tcp.SetLinger(0)
	tcp.Close()
	left := make(chan struct{})
	defer whenGone(socketOf(server), time.Millisecond, func() { close(left) })()
	<-left
}
