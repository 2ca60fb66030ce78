package httpd

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"net/http"
	"time"
)

// The CPU time of what a client sends before a request or beside its body, which needs no key.
const (
	handshakeTime = 1500 * time.Microsecond // of TLS, with a key of RSA-2048
	recordTime    = 8 * time.Microsecond    // to read a record of TLS: one may ask for new keys and an answer
	besideTime    = 250 * time.Nanosecond   // for a byte: a head of short lines, or frames of HTTP/2 of 9 bytes
	sentTime      = 500 * time.Nanosecond   // for a byte of HTTP/2 that no handler sends: refusals of heads, and frames
)

const (
	usualHead  = 2 << 10                   // bytes of a head that requestTime includes
	aheadBytes = receiveBuffer + usualHead // of bodies of HTTP/2, which come before their handlers read them
	answerPart = 64                        // clients of HTTP/2 send fewer bytes for an answer, by this factor
	answerHead = 512                       // bytes of the head of an answer in HTTP/2, or a little more
	pieceHead  = 64                        // of a piece of an answer, besides a sixteenth
	freeFrames = 4 << 10                   // bytes of HTTP/2 that the server sends beside answers, before they are work
)

var errWork = errors.New("the address has begun too many connections")

// arrival is what one read of a connection has returned.
type arrival struct {
	bytes     int
	records   int  // of TLS, whose heads end in these bytes
	handshake bool // the bytes are the first of a handshake
}

// work notes what came on a connection as work of its owner: records, and bytes of a head or beside bodies. It waits
// until the owner may have more, and refuses the handshake of an owner with much work.
func (c *connections) work(conn io.Closer, came arrival) error {
	c.mu.Lock()
	known := c.open[conn]
	if known == nil { // closed past the limit
		c.mu.Unlock()
		return nil
	}
	known.arrived(came.bytes)
	known.unpaid += time.Duration(came.records) * recordTime
	if came.handshake {
		known.unpaid += handshakeTime
	}
	owner, work, g := known.payer(), known.unpaid, gone{known.gone}
	if work >= encodeTime {
		known.unpaid = 0
	}
	c.mu.Unlock()
	if work < encodeTime || c.shares == nil {
		return nil
	}
	rest := c.shares.use(owner, work, time.Now())
	if came.handshake && rest > sharesWait {
		return errWork
	}
	pause(min(rest, sharesWait), g)
	return nil
}

// arrived adds the work for n bytes. The last ones of a head may have the start of a body behind them: endHead counts
// those.
func (k *connection) arrived(n int) {
	switch {
	case k.http2:
		if k.beside += n; k.beside > aheadBytes {
			k.unpaid += time.Duration(k.beside-aheadBytes) * besideTime
			k.beside = aheadBytes
		}
	case !k.headRead:
		k.beside += k.last
		k.unpaid += beyondUsual(k.beside, k.last)
		k.last = n
	}
}

// beyondUsual returns the work for the last bytes of a head of size bytes, of which those of a usual head are free.
func beyondUsual(size, last int) time.Duration {
	return time.Duration(max(0, min(last, size-usualHead))) * besideTime
}

// bytesOf returns the size of a head, as it is in HTTP/1. One of HTTP/2 can be far larger than what came.
func bytesOf(h http.Header) (n int) {
	for name, values := range h {
		for _, value := range values {
			n += len(name) + len(": \r\n") + len(value)
		}
	}
	return n
}

// sends notes that a request is about to send n bytes on a connection of HTTP/2; less than 0: it did not.
func (c *connections) sends(conn io.Closer, n int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if known := c.open[conn]; known != nil {
		known.answer += n + n/16
		if n >= 0 {
			known.answer += pieceHead
		}
	}
}

// sent adds the work for n bytes of HTTP/2 that were sent. Bytes that no request announced are from net/http, for
// example the refusal of a head: a byte can refer to 4 KiB of the heads before it (RFC 7541).
func (k *connection) sent(n int) {
	if k.answer -= n; k.answer < -freeFrames {
		k.unpaid += time.Duration(-freeFrames-k.answer) * sentTime
		k.answer = -freeFrames
	}
}

// endHead ends the count of a head of HTTP/1 of size bytes, and returns the work for those that arrived did not count.
func (c *connections) endHead(conn io.Closer, size int) time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	known := c.open[conn]
	if known == nil { // closed past the limit
		return 0
	}
	c.done(known, known.pending)
	rest := beyondUsual(size, size-known.beside)
	known.headRead, known.beside, known.last = true, 0, 0
	return rest
}

// payer is the owner of the work of a connection.
func (k *connection) payer() string {
	if k.waits == nil {
		return k.owner
	}
	return addressOwner + k.address
}

// leave notes the work of a connection that ends, which nobody waits for. The caller holds mu.
func (c *connections) leave(k *connection) {
	if k.http2 {
		k.unpaid += time.Duration(k.beside) * besideTime
	} else {
		k.unpaid += beyondUsual(k.beside+k.last, k.last) // of a head that no handler got
	}
	if k.unpaid > 0 && c.shares != nil {
		c.shares.use(k.payer(), k.unpaid, time.Now())
	}
}

// countRecords counts the records of a connection that its handler took over as work of an owner. It does not wait, as
// the reads of paidConn do.
func (c *connections) countRecords(conn net.Conn, owner string) {
	secure, ok := conn.(*tls.Conn)
	if !ok {
		return
	}
	if bytes, ok := secure.NetConn().(*countedConn); ok && c.shares != nil {
		bytes.in = func(p []byte) error {
			c.shares.use(owner, time.Duration(bytes.records.count(p))*recordTime, time.Now())
			return nil
		}
	}
}

// records finds the records of TLS in the bytes of a connection (RFC 8446, section 5.1). package tls reads up to 17 of
// them for a byte of data.
type records struct {
	head [5]byte
	have int // bytes of head
	left int // bytes of the record after its head
}

// count returns how many heads of records end in p, and 0 if r is nil.
func (r *records) count(p []byte) (n int) {
	for r != nil && len(p) > 0 {
		if r.left > 0 {
			passed := min(r.left, len(p))
			r.left, p = r.left-passed, p[passed:]
			continue
		}
		copied := copy(r.head[r.have:], p)
		r.have, p = r.have+copied, p[copied:]
		if r.have == len(r.head) {
			r.have, r.left = 0, int(binary.BigEndian.Uint16(r.head[3:]))
			n++
		}
	}
	return n
}
