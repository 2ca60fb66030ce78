package sniff

import (
	"bytes"
	"errors"

	"golang.org/x/net/http/httpguts"
)

// ErrDisguised is the error of a connection whose server may read HTTP, although it did not begin as HTTP.
var ErrDisguised = errors.New("an HTTP request behind the first line of another protocol")

var httpName = []byte("HTTP/")

// LooksLikeRequest reports whether a lenient server may read the first bytes of a connection as an HTTP request. It
// returns ErrMore while that is open, for at most MaxFirst bytes.
func LooksLikeRequest(b []byte) (bool, error) {
	line, _, whole := bytes.Cut(bytes.TrimLeft(b, "\r\n"), []byte("\n"))
	if whole {
		return bytes.Contains(bytes.ToUpper(line), httpName) || isOtherLine(line), nil
	}
	end := tokenEnd(line)
	switch {
	case end < len(line) && (end == 0 || !isBlank(line[end]) && line[end] != '\r'):
		return false, nil
	case len(b) <= MaxFirst:
		return false, ErrMore
	}
	return end < len(line) || end == 0, nil // a first line or empty lines that the gate does not read
}

// tokenEnd returns how many of the first bytes of a line are a token (RFC 9110, section 5.6.2), such as a method.
func tokenEnd(line []byte) int {
	for i, c := range line {
		if !httpguts.IsTokenRune(rune(c)) {
			return i
		}
	}
	return len(line)
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' }

// isRequestLine reports whether a lenient server may read a line as the first line of a request: a method, anything
// between blanks, and a version of HTTP. Its end decides about most lines.
func isRequestLine(line []byte) bool {
	line = bytes.TrimRight(line, " \t\r")
	rest := bytes.TrimRight(line, digits+".")
	at := len(rest) - len(httpName)
	if len(rest) == len(line) || at < 1 || !bytes.EqualFold(rest[at:], httpName) || !isBlank(rest[at-1]) {
		return false
	}
	rest = bytes.TrimLeft(rest[:at-1], " \t")
	end := tokenEnd(rest)
	return end > 0 && end < len(rest) && isBlank(rest[end])
}

// beginsRequest reports whether a line may begin the first line of a request: with a method and a blank, or only
// blanks.
func beginsRequest(line []byte) bool {
	line = bytes.TrimLeft(line, " \t")
	end := tokenEnd(line)
	return len(line) == 0 || end > 0 && end < len(line) && isBlank(line[end])
}

// isOtherLine reports whether a line is the first line of a request of a protocol with the same syntax, such as RTSP: a
// method, a target, and a name with a version, between blanks.
func isOtherLine(line []byte) bool {
	line = bytes.TrimRight(bytes.TrimLeft(line, " \t"), " \t\r")
	first, last := bytes.IndexAny(line, " \t"), bytes.LastIndexAny(line, " \t")
	if first < 0 {
		return false
	}
	target := bytes.Trim(line[first:last], " \t")
	name, version, _ := bytes.Cut(line[last+1:], []byte("/"))
	major, minor, _ := bytes.Cut(version, []byte("."))
	return len(target) > 0 && !bytes.ContainsAny(target, " \t") && consists(line[:first], letters+"_-") &&
		consists(name, letters) && consists(major, digits) && consists(minor, digits)
}

const (
	letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits  = "0123456789"
)

// consists reports whether b is not empty and has only characters of a set.
func consists(b []byte, set string) bool { return len(b) > 0 && len(bytes.Trim(b, set)) == 0 }

// Disguise watches a connection that did not begin as HTTP, until its server has spoken another protocol.
type Disguise struct {
	line   []byte // what the client has sent of a line, at most MaxFirst bytes
	answer []byte // the first bytes of the server
	over   bool

	Parsed int // bytes that were read; the caller may reset it
}

// Client follows what the client sends. It returns ErrDisguised at the end of a line that a server may read as that of
// a request, and in a line that may become one and is longer than the gate reads.
func (d *Disguise) Client(b []byte) error {
	for !d.over && len(b) > 0 {
		part, rest, whole := bytes.Cut(b, []byte("\n"))
		d.Parsed += len(part) + 1
		d.line = append(d.line, part[:min(len(part), MaxFirst-len(d.line))]...)
		if len(d.line) == MaxFirst && beginsRequest(d.line) {
			return ErrDisguised
		}
		if b = rest; !whole {
			return nil
		}
		if isRequestLine(d.line) {
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
