package intercept

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"net/http"
	"net/http/httptrace"
	"net/textproto"
	"sync"
	"time"

	"github.com/fumehood-dev/fumehood/internal/duplex"
	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/internal/egress/sniff"
)

const (
	// maxAnswerHead is the most bytes of the head of an answer, interim answers included. Clients accept 64 KiB to 1
	// MiB.
	maxAnswerHead = 64 << 10
	maxHeadLines  = duplex.MaxHeadLines
)

// Reasons for which a host has no answer.
const (
	tooLarge    rules.Refusal = "its answer has headers of more than 64 KiB or 500 lines"
	tooSlowHead rules.Refusal = "it took too long to send the headers of its answer"
)

// answerHead is a connection to a server of HTTP/1, for one request, that bounds the head of the answer in bytes, lines
// and time: net/http would read ten megabytes, and wait without an end.
type answerHead struct {
	duplex.Conn
	lines duplex.HeadLines
	bytes int
	done  bool // the head has been read

	mu      sync.Mutex // guards all below
	timer   *time.Timer
	refused error // why the head was refused
}

// Read reads at most what net/http reads at once, so that little of the body is taken for the head.
func (c *answerHead) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if c.done || n == 0 {
		return n, err
	}
	c.begin()
	c.bytes += n
	c.done = c.lines.Read(b[:n])
	switch {
	case c.done:
		c.end()
	case c.bytes > maxAnswerHead || c.lines.Count > maxHeadLines:
		return 0, c.refuse(tooLarge)
	}
	return n, err
}

func (c *answerHead) refuse(why error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.refused = cmp.Or(c.refused, why)
	return c.refused
}

// refusal returns why the head was refused, or nil. The error of net/http may hide it.
func (c *answerHead) refusal() error {
	if c == nil {
		return nil
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.refused
}

// withHead has the context of a request find the connection of its answer, if that is HTTP/1, and count the fields of
// interim answers.
func withHead(ctx context.Context, head **answerHead, fields *answerFields) context.Context {
	return httptrace.WithClientTrace(ctx, &httptrace.ClientTrace{GotConn: func(info httptrace.GotConnInfo) {
		if c, ok := info.Conn.(*duplex.SpeaksFirst); ok {
			*head, _ = c.Conn.(*answerHead)
		}
	}, Got1xxResponse: func(_ int, h textproto.MIMEHeader) error { return fields.add(http.Header(h)) }})
}

// answerFields counts the fields of an answer, also those of interim answers (RFC 9110, section 15.2). HTTP/2 writes a
// field in a byte, and http.Transport bounds neither the fields of a head nor the number of interim answers.
type answerFields struct {
	spend func(time.Duration)

	mu           sync.Mutex // guards all below
	lines, bytes int
	refused      error
}

// add counts the fields of a head. It fails if the answer has too many.
func (a *answerFields) add(h http.Header) error {
	lines, bytes := sizeOf(h)
	a.spend(time.Duration(lines+1)*fieldTime + time.Duration(bytes)*headTime)
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.lines, a.bytes = a.lines+lines+1, a.bytes+bytes; a.lines > maxHeadLines+1 || a.bytes > maxAnswerHead {
		a.refused = tooLarge
	}
	return a.refused
}

func (a *answerFields) refusal() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.refused
}

// sizeOf returns how many lines and bytes the fields of a head take in HTTP/1.
func sizeOf(h http.Header) (lines, bytes int) {
	for name, values := range h {
		lines += len(values)
		for _, value := range values {
			bytes += len(name) + len(": \r\n") + len(value)
		}
	}
	return lines, bytes
}

// begin starts the clock at the first byte: a server may take its time before.
func (c *answerHead) begin() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer == nil {
		c.timer = time.AfterFunc(sniff.HeadTimeout, func() {
			_ = c.refuse(tooSlowHead)
			c.Conn.Close()
		})
	}
}

func (c *answerHead) end() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.timer != nil {
		c.timer.Stop()
	}
}

func (c *answerHead) Close() error {
	c.end()
	return c.Conn.Close()
}

// requestHead is the sandbox's end of a connection of HTTP/1, inside TLS. It bounds the lines of each head; http.Server
// bounds bytes and time.
type requestHead struct {
	*tls.Conn
	conn *Conn
	log  func(reason string)

	mu    sync.Mutex // guards all below
	lines duplex.HeadLines
	done  bool // the head has been read
}

func (c *requestHead) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.done {
		c.done = c.lines.Read(b[:n])
	}
	if !c.done && c.lines.Count > maxHeadLines {
		c.log(tooManyLines)
		return 0, errTooManyLines
	}
	return n, err
}

const tooManyLines = "its request has more than 500 lines of headers"

var errTooManyLines = errors.New(tooManyLines)

// next expects another head.
func (c *requestHead) next() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines, c.done = duplex.HeadLines{}, false
}
