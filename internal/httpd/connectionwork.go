package httpd

import (
	"errors"
	"io"
	"time"
)

// The CPU time of what a client sends before a request or beside its body, which needs no key.
const (
	handshakeTime = 1500 * time.Microsecond // of TLS, with a key of RSA-2048
	besideTime    = 250 * time.Nanosecond   // for a byte: a head of short lines, or frames of HTTP/2 of 9 bytes
)

const (
	usualHead  = 2 << 10                   // bytes of a head that requestTime includes
	aheadBytes = receiveBuffer + usualHead // of bodies of HTTP/2, which come before their handlers read them
	answerPart = 64                        // clients of HTTP/2 send fewer bytes for an answer, by this factor
)

var errWork = errors.New("the address has begun too many connections")

// work notes n bytes of a connection as work of its owner, if they are of a head or beside bodies, and waits until the
// owner may have more. It refuses the handshake of an owner with much work.
func (c *connections) work(conn io.Closer, n int, handshake bool) error {
	c.mu.Lock()
	known := c.open[conn]
	if known == nil { // closed past the limit
		c.mu.Unlock()
		return nil
	}
	known.arrived(n)
	if handshake {
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
	if handshake && rest > sharesWait {
		return errWork
	}
	pause(min(rest, sharesWait), g)
	return nil
}

// arrived adds the work for n bytes.
func (k *connection) arrived(n int) {
	free := usualHead
	switch {
	case k.http2:
		free = aheadBytes
	case k.headRead:
		return
	}
	if k.beside += n; k.beside > free {
		k.unpaid += time.Duration(k.beside-free) * besideTime
		k.beside = free
	}
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
	}
	if k.unpaid > 0 && c.shares != nil {
		c.shares.use(k.payer(), k.unpaid, time.Now())
	}
}
