package sniff

import (
	"bytes"
	"errors"
	"regexp"

	"golang.org/x/net/http/httpguts"
)

// ErrDisguised is the error of a connection whose server may read HTTP, although it did not begin as HTTP.
var ErrDisguised = errors.New("an HTTP request behind the first line of another protocol")

var (
	// requestLine matches a line that a lenient server may read as the first line of a request.
	requestLine = regexp.MustCompile(`(?i)^[ \t]*[!#$%&'*+.^_|~0-9a-z` + "`" + `-]+[ \t].*[ \t]HTTP/[0-9.]+[ \t\r]*$`)
	// otherLine matches the first line of a request of a protocol with the same syntax, such as RTSP.
	otherLine = regexp.MustCompile(`(?i)^[ \t]*[a-z_-]+[ \t]+[^ \t]+[ \t]+[a-z]+/[0-9]+\.[0-9]+[ \t\r]*$`)
	httpName  = []byte("HTTP/")
)

// LooksLikeRequest reports whether a lenient server may read the first bytes of a connection as an HTTP request. It
// returns ErrMore while that is open.
func LooksLikeRequest(b []byte) (bool, error) {
	b = bytes.TrimLeft(b, "\r\n")
	line, _, whole := bytes.Cut(b, []byte("\n"))
	if whole {
		return bytes.Contains(bytes.ToUpper(line), httpName) || otherLine.Match(line), nil
	}
	for i, c := range line {
		switch {
		case i > 0 && (c == ' ' || c == '\t' || c == '\r'):
			if len(line) > MaxFirst {
				return true, nil // that the gate does not read
			}
			return false, ErrMore
		case !httpguts.IsTokenRune(rune(c)):
			return false, nil
		}
	}
	if len(line) > MaxFirst {
		return false, nil
	}
	return false, ErrMore
}

// Disguise watches a connection that did not begin as HTTP, until its server has spoken another protocol.
type Disguise struct {
	line   []byte // what the client has sent of a line, at most MaxFirst bytes
	answer []byte // the first bytes of the server
	over   bool

	Parsed int // bytes that were read; the caller may reset it
}

// Client follows what the client sends. It returns ErrDisguised at the end of a line that a server may read as that of
// a request.
func (d *Disguise) Client(b []byte) error {
	for !d.over && len(b) > 0 {
		part, rest, whole := bytes.Cut(b, []byte("\n"))
		d.Parsed += len(part) + 1
		d.line = append(d.line, part[:min(len(part), MaxFirst-len(d.line))]...)
		if b = rest; !whole {
			return nil
		}
		if requestLine.Match(d.line) {
			return ErrDisguised
		}
		d.line = d.line[:0]
	}
	return nil
}

// Server follows what the server sends. It returns ErrDisguised if the server speaks HTTP.
func (d *Disguise) Server(b []byte) error {
	if d.over {
		return nil
	}
	d.answer = append(d.answer, b[:min(len(b), len(httpName)-len(d.answer))]...)
	switch {
	case bytes.EqualFold(d.answer, httpName):
		return ErrDisguised
	case !bytes.EqualFold(d.answer, httpName[:len(d.answer)]):
		d.over, d.line = true, nil
	}
	return nil
}
