package httpd

import (
	"errors"
	"io"
	"net"
)

// headBudget is the number of bytes that all connections of a listener may send before their head, or TLS handshake,
// is complete. net/http keeps up to 14 bytes of memory for each: map entries for lines of four bytes.
const headBudget = 2 << 20

// Listen returns l, whose connections count the bytes of incomplete heads when HTTPServer serves them. Past headBudget,
// the connection that has held such bytes longest is closed. TLS belongs outside: tls.NewListener(Listen(l), config).
func Listen(l net.Listener) net.Listener { return headListener{l} }

type headListener struct{ net.Listener }

func (l headListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &headConn{Conn: conn}, nil
}

// headConn counts what its server reads of a head.
type headConn struct {
	net.Conn
	read func(n int) // set before the first Read; nil: not counted
}

func (c *headConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.read != nil && n > 0 {
		c.read(n)
	}
	return n, err
}

// CloseWrite lets net/http end an answer without a reset, which would discard what the client has not read.
func (c *headConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// plain returns the TCP or Unix connection below TLS and headConn, and has read called for each Read of a headConn.
func plain(conn net.Conn, read func(n int)) net.Conn {
	if secure, ok := conn.(interface{ NetConn() net.Conn }); ok { // of crypto/tls
		conn = secure.NetConn()
	}
	if counted, ok := conn.(*headConn); ok {
		counted.read = read
		conn = counted.Conn
	}
	return conn
}

// readHead counts n bytes of a connection, if its head is not complete.
func (c *connections) readHead(conn io.Closer, n int) {
	c.mu.Lock()
	known := c.open[conn]
	if known == nil || known.headRead {
		c.mu.Unlock()
		return
	}
	known.head += n
	c.heads += n
	var over []io.Closer
	for e := c.waiting.Front(); e != nil && c.heads > headBudget; {
		entry := e.Value.(*connection)
		e = e.Next()
		if entry.head > 0 {
			c.remove(entry)
			over = append(over, entry.Closer)
		}
	}
	c.mu.Unlock()
	for _, conn := range over {
		c.refuse()
		conn.Close()
	}
}

// endHead forgets the bytes of a head: it is complete, or its connection has ended. The caller holds mu.
func (c *connections) endHead(entry *connection, complete bool) {
	c.heads -= entry.head
	entry.head, entry.headRead = 0, complete
}
