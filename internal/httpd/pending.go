package httpd

import (
	"crypto/tls"
	"errors"
	"io"
	"net"
)

// pendingBudget is the number of bytes that all connections of a listener without an admitted request may send before
// the server is done with them: of incomplete TLS handshakes and heads, of HTTP/2 frames whose answers the client has
// not received, and of bodies in HTTP/2 that handlers have not read. net/http keeps up to 14 bytes of memory for each:
// map entries for lines of four bytes.
const pendingBudget = 4 << 20

// Listen returns l, whose connections count their pending bytes when HTTPServer serves them. Past pendingBudget, the
// connection that has waited longest with such bytes is closed. TLS belongs outside: tls.NewListener(Listen(l), c).
func Listen(l net.Listener) net.Listener { return countedListener{l} }

type countedListener struct{ net.Listener }

func (l countedListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &countedConn{Conn: conn}, nil
}

// countedConn counts what its server reads and writes.
type countedConn struct {
	net.Conn
	in  func(p []byte) error // may wait; set before the first Read, as out; nil: not counted
	out func(n int)

	records *records // nil without TLS
}

func (c *countedConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if c.in != nil && n > 0 {
		if refused := c.in(p[:n]); refused != nil {
			return 0, refused
		}
	}
	return n, err
}

func (c *countedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	if c.out != nil {
		c.out(n)
	}
	return n, err
}

// CloseWrite lets net/http end an answer without a reset, which would discard what the client has not read.
func (c *countedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// counted begins to count the bytes of a new connection, if Listen accepted it. It returns the TCP or Unix connection.
func (c *connections) counted(conn net.Conn) net.Conn {
	inner := conn
	secure, isTLS := conn.(*tls.Conn)
	if isTLS {
		inner = secure.NetConn()
	}
	bytes, ok := inner.(*countedConn)
	if !ok {
		return inner
	}
	begin := isTLS
	if isTLS {
		bytes.records = &records{}
	}
	bytes.in = func(p []byte) error {
		c.received(conn, len(p))
		came := arrival{bytes: len(p), records: bytes.records.count(p), handshake: begin}
		begin = false
		return c.work(conn, came)
	}
	bytes.out = func(n int) { c.sent(conn, n) }
	return bytes.Conn
}

// received counts n bytes, and closes connections past the budget.
func (c *connections) received(conn io.Closer, n int) {
	c.mu.Lock()
	known := c.open[conn]
	if known == nil || known.waits == nil || known.headRead && !known.http2 {
		c.mu.Unlock()
		return
	}
	known.pending += n
	c.pending += n
	var over []io.Closer
	for e := c.waiting.Front(); e != nil && c.pending > pendingBudget; {
		entry := e.Value.(*connection)
		e = e.Next()
		if entry.pending > 0 {
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

// sent notes n bytes that were sent on a connection of HTTP/2: some of what came is processed.
func (c *connections) sent(conn io.Closer, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[conn]; known != nil && known.http2 {
		c.done(known, n/3) // a record of TLS makes 39 bytes of an answer to 17
		known.beside = max(0, known.beside-n/3/answerPart)
		known.sent(n)
	}
}

// read notes that a handler has read n bytes of a body in HTTP/2, for which net/http sends frames.
func (c *connections) read(conn io.Closer, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[conn]; known != nil && known.http2 {
		c.done(known, n)
		known.beside = max(0, known.beside-n)
		known.answer += n / 128 // updates of windows
	}
}

// countedBody is the body of a request of HTTP/2.
type countedBody struct {
	io.ReadCloser
	read func(n int)
}

func (b countedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.read(n + n/64) // frames and records add to it
	return n, err
}

// done ends the count of n pending bytes of a connection. The caller holds mu.
func (c *connections) done(entry *connection, n int) {
	n = min(n, entry.pending)
	entry.pending -= n
	c.pending -= n
}
