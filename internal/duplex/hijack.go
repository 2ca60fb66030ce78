package duplex

import (
	"bufio"
	"io"
	"net"
	"net/http"
	"sync"
)

// Hijack takes over the connection of a request. The connection first returns the bytes that net/http has read behind
// the request: httputil.ReverseProxy would lose them. The reader reads from the connection.
func Hijack(w http.ResponseWriter) (net.Conn, *bufio.ReadWriter, error) {
	conn, buffered, err := http.NewResponseController(w).Hijack()
	if err != nil {
		return nil, nil, err
	}
	if both, ok := conn.(Conn); ok {
		early := io.LimitReader(buffered.Reader, int64(buffered.Reader.Buffered()))
		conn = &Buffered{Conn: both, First: io.MultiReader(early, conn)}
	}
	return conn, bufio.NewReadWriter(bufio.NewReader(conn), buffered.Writer), nil
}

// SpeaksFirst is a connection whose reads wait until this side has written: http.Transport prints bytes that come
// earlier with package log.
type SpeaksFirst struct {
	Conn
	once  sync.Once
	spoke chan struct{}
}

// NewSpeaksFirst wraps a connection.
func NewSpeaksFirst(c Conn) *SpeaksFirst { return &SpeaksFirst{Conn: c, spoke: make(chan struct{})} }

func (c *SpeaksFirst) Read(p []byte) (int, error) {
	<-c.spoke
	return c.Conn.Read(p)
}

func (c *SpeaksFirst) Write(p []byte) (int, error) {
	c.once.Do(func() { close(c.spoke) })
	return c.Conn.Write(p)
}

// Close also ends reads that wait.
func (c *SpeaksFirst) Close() error {
	c.once.Do(func() { close(c.spoke) })
	return c.Conn.Close()
}
