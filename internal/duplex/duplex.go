// Package duplex joins two connections whose halves end alone, and follows the heads on them.
package duplex

import (
	"io"
	"net"
	"sync"
)

// Conn is a connection with two halves: CloseWrite ends this side's, and the other goes on.
type Conn interface {
	net.Conn
	CloseWrite() error
}

// Join copies each connection's bytes to the other until both halves have ended, or one of them has failed. Then it
// closes both. The end of a half is passed on as one.
func Join(a, b Conn) {
	defer a.Close()
	defer b.Close()
	var other sync.WaitGroup
	other.Go(func() { pour(a, b) })
	pour(b, a)
	other.Wait()
}

func pour(to, from Conn) {
	_, err := io.Copy(to, from)
	if err == nil {
		err = to.CloseWrite()
	}
	if err != nil { // the other half cannot go on alone
		to.Close()
		from.Close()
	}
}

// Buffered is a connection from which some bytes have been read. First returns these bytes, then those of Conn.
type Buffered struct {
	Conn
	First io.Reader
}

// Read reads from First.
func (b *Buffered) Read(p []byte) (int, error) { return b.First.Read(p) }
