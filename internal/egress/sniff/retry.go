package sniff

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"slices"
)

// ErrRetry is the error of a second TLS hello that differs from the first one.
var ErrRetry = errors.New("a second TLS hello for another name, or before the server requested it")

// retryRandom is the random value of a ServerHello that requests another hello.
var retryRandom = sha256.Sum256([]byte("HelloRetryRequest"))

// Retry follows a connection of TLS after its first hello, until the server has answered: it may request another hello
// (RFC 8446, section 4.1.4), and some servers take the name of the second one.
type Retry struct {
	Parsed int // bytes that were read; the caller may reset it

	name           string // of the first hello
	skip           int    // bytes of the first hello to come
	client, server records
	again          []byte // the second hello, with the headers of its records
	answer         []byte // the first bytes of the server's first message
	requested      bool
	over           bool
	invalid        bool // another message is in the last record of the first hello
}

// NewRetry returns a Retry for a connection that begins with a hello. Client expects the same bytes again.
func NewRetry(h Hello, first []byte) *Retry {
	size, rest, _ := helloSize(first)
	return &Retry{name: h.Server, skip: size, invalid: rest > 0}
}

// Client follows what the client sends. It returns ErrRetry before the last byte of a second hello that must not pass.
func (r *Retry) Client(b []byte) error {
	if r.invalid {
		return ErrRetry
	}
	n := min(r.skip, len(b))
	r.skip, b = r.skip-n, b[n:]
	for !r.over && len(b) > 0 {
		if len(r.again) > 0 {
			return r.readAgain(b)
		}
		kind, part, rest := r.client.next(b)
		if b = rest; kind != TLSHandshake { // data that is sent early, which a server may skip
			continue
		}
		if !r.requested {
			return ErrRetry
		}
		return r.readAgain(slices.Concat(r.client.header, part, rest))
	}
	return nil
}

// readAgain reads more of the second hello.
func (r *Retry) readAgain(b []byte) error {
	r.again = append(r.again, b...)
	r.Parsed += len(r.again)
	h, err := ParseHello(r.again)
	switch {
	case errors.Is(err, ErrMore):
		return nil
	case err != nil:
		return err
	case h.Hidden || h.Server != r.name:
		return ErrRetry
	}
	r.over, r.again = true, nil
	return nil
}

// Server follows what the server sends, before the client has it.
func (r *Retry) Server(b []byte) {
	const alert, serverHello, random = 21, 2, 6 // a record, a message, and the position of the random value in it
	for !r.over && !r.requested && len(b) > 0 {
		kind, part, rest := r.server.next(b)
		switch b = rest; kind {
		case 0, alert: // such as a warning about the name
			continue
		case TLSHandshake:
			r.answer = append(r.answer, part[:min(len(part), random+len(retryRandom)-len(r.answer))]...)
		default:
			r.over = true
		}
		switch {
		case len(r.answer) > 0 && r.answer[0] != serverHello:
			r.over = true
		case len(r.answer) == random+len(retryRandom):
			r.requested = bytes.Equal(r.answer[random:], retryRandom[:])
			r.over = !r.requested
		}
	}
}

// recordHeader is the bytes of the header of a record of TLS: its kind, a version, and a length of two bytes.
const recordHeader = 5

// records splits a stream into records of TLS.
type records struct {
	header []byte
	left   int // bytes of the record to come
}

// next returns the kind of the record with the first bytes of b, or 0 while its header is incomplete. It splits b after
// the part of the record's body.
func (r *records) next(b []byte) (kind byte, part, rest []byte) {
	if r.left == 0 {
		r.header = r.header[:len(r.header)%recordHeader]
		n := min(recordHeader-len(r.header), len(b))
		if r.header, b = append(r.header, b[:n]...), b[n:]; len(r.header) < recordHeader {
			return 0, nil, nil
		}
		r.left = int(binary.BigEndian.Uint16(r.header[3:]))
	}
	n := min(r.left, len(b))
	r.left -= n
	return r.header[0], b[:n], b[n:]
}
