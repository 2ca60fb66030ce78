package duplex

import "errors"

// MaxHeadLines is the most lines of a head of HTTP/1. net/http takes some 200 bytes for each, however short it is.
const MaxHeadLines = 500

// ErrHeadLines is the error of a head with more lines than MaxHeadLines.
var ErrHeadLines = errors.New("a head of more than 500 lines")

// BoundedHead is a connection on which one answer of HTTP/1 comes. Reading fails in a head of more than MaxHeadLines.
type BoundedHead struct {
	Conn
	lines HeadLines
	done  bool // the head has been read
}

// Read reads from the connection.
func (c *BoundedHead) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.done {
		c.done = c.lines.Read(b[:n])
	}
	if c.lines.Count > MaxHeadLines {
		return 0, ErrHeadLines
	}
	return n, err
}

// HeadLines counts the lines of a head in HTTP/1, and of interim answers before it.
type HeadLines struct {
	Count   int                       // of lines
	line    [len("HTTP/1.1 100")]byte // the beginning of the current line
	size    int                       // of the current line, without line ends
	begun   bool                      // the head has a line
	interim bool
}

// Read reads up to the end of the head, and reports whether it has come.
func (h *HeadLines) Read(b []byte) bool {
	for _, c := range b {
		switch {
		case c == '\r':
		case c != '\n':
			if h.size < len(h.line) {
				h.line[h.size] = c
			}
			h.size++
		case h.size > 0:
			if !h.begun {
				h.begun, h.interim = true, h.isInterim()
			}
			h.Count++
			h.size = 0
		case h.begun && !h.interim:
			return true
		default: // an empty line before a head, or the end of an interim one
			h.begun = false
			h.Count++
		}
	}
	return false
}

// isInterim reports whether the current line is the first of an interim answer (RFC 9110, section 15.2). 101 is none.
func (h *HeadLines) isInterim() bool {
	text := string(h.line[:min(h.size, len(h.line))])
	return len(text) == len(h.line) && text[:7] == "HTTP/1." && text[8:10] == " 1" && text[10:] != "01"
}
