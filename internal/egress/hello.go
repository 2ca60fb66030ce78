package egress

import (
	"encoding/binary"
	"errors"
)

// hello is what the first message of a TLS client says before anything is encrypted.
type hello struct {
	server string // the server name (RFC 6066), as it was sent; "" if there is none
	hidden bool   // it has the extension of Encrypted Client Hello
}

const (
	tlsHandshake   = 22 // the type of a record (RFC 8446, section 5.1)
	tlsRecordMax   = 1 << 14
	tlsClientHello = 1 // the type of a message (section 4)
	tlsServerName  = 0
	tlsECH         = 0xfe0d // RFC 9849
)

var (
	errMore  = errors.New("more bytes are needed")
	errHello = errors.New("a malformed TLS hello")
)

// parseHello reads a ClientHello that may be spread over records. It returns errMore while it is incomplete.
func parseHello(b []byte) (hello, error) {
	message, err := joinRecords(b)
	if err != nil {
		return hello{}, err
	}
	r := reader{b: message}
	r.skip(2 + 32) // version, random
	r.vector(1)    // session
	r.vector(2)    // cipher suites
	r.vector(1)    // compression
	extensions := reader{b: r.vector(2)}
	if r.bad || len(r.b) != 0 {
		return hello{}, errHello
	}
	var h hello
	seen := map[uint16]bool{}
	for len(extensions.b) > 0 && !extensions.bad {
		kind := extensions.uint(2)
		body := reader{b: extensions.vector(2)}
		if seen[uint16(kind)] {
			return hello{}, errHello
		}
		seen[uint16(kind)] = true
		switch kind {
		case tlsECH:
			h.hidden = true
		case tlsServerName:
			list := reader{b: body.vector(2)}
			nameType, name := list.uint(1), list.vector(2)
			if body.bad || list.bad || len(body.b)+len(list.b) != 0 || nameType != 0 || len(name) == 0 {
				return hello{}, errHello
			}
			h.server = string(name)
		}
	}
	if extensions.bad {
		return hello{}, errHello
	}
	return h, nil
}

// joinRecords returns the body of the first handshake message.
func joinRecords(b []byte) ([]byte, error) {
	var message []byte
	for {
		if len(b) < 5 {
			return nil, errMore
		}
		n := int(binary.BigEndian.Uint16(b[3:]))
		if b[0] != tlsHandshake || b[1] != 3 || n == 0 || n > tlsRecordMax {
			return nil, errHello
		}
		part := b[5:]
		part = part[:min(n, len(part))]
		message = append(message, part...)
		if len(message) >= 4 {
			size := int(message[1])<<16 | int(message[2])<<8 | int(message[3])
			if message[0] != tlsClientHello || size > maxFirst {
				return nil, errHello
			}
			if len(message) >= 4+size {
				return message[4 : 4+size], nil
			}
		}
		if len(part) < n {
			return nil, errMore
		}
		b = b[5+n:]
	}
}

// reader takes fields off bytes. Once a field is missing, it is bad and all further ones are empty.
type reader struct {
	b   []byte
	bad bool
}

func (r *reader) skip(n int) []byte {
	if r.bad || len(r.b) < n {
		r.bad, r.b = true, nil
		return nil
	}
	field := r.b[:n]
	r.b = r.b[n:]
	return field
}

// uint reads a number of so many bytes.
func (r *reader) uint(size int) int {
	n := 0
	for _, c := range r.skip(size) {
		n = n<<8 | int(c)
	}
	return n
}

// vector reads a field whose length comes first, as a number of so many bytes.
func (r *reader) vector(size int) []byte { return r.skip(r.uint(size)) }
