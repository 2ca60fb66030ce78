package httpd

import (
	"crypto/tls"
	"net"
	"net/http"
	"sync"
	"syscall"
	"time"
)

// lookEvery is how often the server looks whether clients from which it reads nothing still have a socket.
const lookEvery = 30 * time.Second

// WhenGone calls leave, which must not wait, once the client of a request of HTTP/1 has closed its socket for good,
// unless stop is called before. net/http sees that only while it reads: not while a program does not take the body, nor
// after Hijack, while a program does not end its half of a connection. The kernel sees it by keep-alives at the latest.
func WhenGone(r *http.Request, leave func()) (stop func()) {
	carried, ok := r.Context().Value(carrier{}).(carriers)
	if !ok || r.ProtoMajor != 1 { // HTTP/2 is always read
		return func() {}
	}
	conn, _ := carried.each[0].(net.Conn)
	return whenGone(socketOf(conn), lookEvery, leave)
}

// socketOf returns the TCP or Unix connection below a connection of the server.
func socketOf(conn net.Conn) net.Conn {
	if secure, ok := conn.(*tls.Conn); ok {
		conn = secure.NetConn()
	}
	if counted, ok := conn.(*countedConn); ok {
		conn = counted.Conn
	}
	return conn
}

func whenGone(socket net.Conn, every time.Duration, leave func()) (stop func()) {
	conn, ok := socket.(syscall.Conn)
	if !ok {
		return func() {}
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return func() {}
	}
	var mu sync.Mutex // guards below
	var look *time.Timer
	stopped := false
	mu.Lock()
	defer mu.Unlock()
	look = time.AfterFunc(every, func() {
		mu.Lock()
		defer mu.Unlock()
		switch {
		case stopped:
		case hungUp(raw):
			leave()
		default:
			look.Reset(every)
		}
	})
	return func() {
		mu.Lock()
		defer mu.Unlock()
		stopped = true
		look.Stop()
	}
}
