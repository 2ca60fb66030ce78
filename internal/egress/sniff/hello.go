package sniff

import (
	"crypto/tls"
	"encoding/binary"
	"errors"
	"net"
	"slices"
	"strings"
	"unicode/utf8"
)

// Hello is the readable part of the first message of a TLS client.
type Hello struct {
	Server string // the server name (RFC 6066), as it was sent; "" if there is none
	Hidden bool   // it has the extension of Encrypted Client Hello
}

const (
	// TLSHandshake is the first byte of a TLS connection: the type of its first record (RFC 8446, section 5.1).
	TLSHandshake  = 22
	maxHello      = 2 * MaxFirst // bytes of a hello, with the headers of its records
	encryptedName = 0xfe0d       // the extension encrypted_client_hello (RFC 9849)
)

var (
	ErrMore  = errors.New("more bytes are needed")
	ErrHello = errors.New("a malformed TLS hello")

	errParsed = errors.New("the hello was parsed")
)

// OtherRecord reports whether a connection begins with a record of TLS that is no handshake. Servers skip a warning, so
// a hello could follow. It returns ErrMore while that is open.
func OtherRecord(b []byte) (bool, error) {
	const first, last, major = 20, 24, 3 // types of records (RFC 8446, section 5.1; RFC 6520), and their version
	switch {
	case len(b) == 0 || b[0] < first || b[0] > last || b[0] == TLSHandshake:
		return false, nil
	case len(b) == 1:
		return false, ErrMore
	}
	return b[1] == major, nil
}

// ParseHello parses a ClientHello, which may be spread over records. It returns ErrMore while it is incomplete. A hello
// of more than maxHello bytes is malformed, and so is a server name that ends in a dot or is not ASCII (RFC 6066,
// section 3). An incomplete hello costs little.
func ParseHello(b []byte) (Hello, error) {
	if _, _, whole := helloSize(b); len(b) < maxHello && !whole {
		return Hello{}, ErrMore
	}
	r := &replay{sent: b[:min(len(b), maxHello)]}
	err := tls.Server(r, parseOnly).Handshake()
	switch {
	case errors.Is(err, errParsed) && isASCII(r.hello.Server):
		return r.hello, nil
	case errors.Is(err, ErrMore) && len(b) < maxHello:
		return Hello{}, ErrMore
	}
	return Hello{}, ErrHello
}

func isASCII(s string) bool {
	return !strings.ContainsFunc(s, func(c rune) bool { return c >= utf8.RuneSelf })
}

// helloSize returns the bytes of the records of a hello (RFC 8446, section 5.1), and how many of them follow the hello.
// whole is false while b lacks a part of the hello. Of a record of another kind, which the parser refuses, it is true.
func helloSize(b []byte) (size, rest int, whole bool) {
	const messageHeader = 4
	var header [messageHeader]byte // of the hello: its type, and its size in three bytes
	have, records := 0, 0
	for len(b) > 0 && b[0] == TLSHandshake {
		if len(b) < recordHeader {
			return size, 0, false
		}
		end := recordHeader + int(binary.BigEndian.Uint16(b[3:]))
		part := b[recordHeader:min(len(b), end)]
		copy(header[min(have, messageHeader):], part)
		have, records, size = have+len(part), records+end-recordHeader, size+end
		message := messageHeader + int(binary.BigEndian.Uint32(header[:]))&0xff_ffff
		if have >= message {
			return size, records - message, true
		}
		b = b[min(len(b), end):]
	}
	return size, 0, len(b) > 0
}

// parseOnly ends a handshake once the hello has been parsed.
var parseOnly = &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
	info.Conn.(*replay).hello = Hello{info.ServerName, slices.Contains(info.Extensions, encryptedName)}
	return nil, errParsed
}}

// replay is a connection on which a client has sent some bytes. It discards the bytes that the server sends.
type replay struct {
	net.Conn
	sent  []byte
	hello Hello
}

func (r *replay) Read(p []byte) (int, error) {
	if len(r.sent) == 0 {
		return 0, ErrMore
	}
	n := copy(p, r.sent)
	r.sent = r.sent[n:]
	return n, nil
}

func (*replay) Write(p []byte) (int, error) { return len(p), nil }
