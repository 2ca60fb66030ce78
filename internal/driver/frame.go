package driver

import (
	"bytes"
	"fmt"
	"strconv"
)

// Kind is the kind of a frame.
type Kind string

// The kinds of frames.
const (
	Run      Kind = "run"
	Complete Kind = "complete"
	Tools    Kind = "tools"
	Answer   Kind = "answer"
	Export   Kind = "export"
	Import   Kind = "import"

	Ready     Kind = "ready"
	Result    Kind = "result"
	Exception Kind = "error"
	Done      Kind = "done"
	Matches   Kind = "matches"
	Call      Kind = "call"
	State     Kind = "state"
)

// Limits of a frame. A driver cuts what it reports to them; a frame beyond them breaks the protocol.
const (
	MaxHeader = 512      // bytes of the header line
	MaxFields = 64       // of one frame
	MaxFrame  = 24 << 20 // bytes of all fields of one frame
)

// The memory in bytes that a parser keeps for the next frame, and while it rests.
const (
	keep        = 64 << 10
	keepResting = 4 << 10
)

// Frame is one request or report.
type Frame struct {
	Kind   Kind
	Fields [][]byte
}

// Append appends the frame's bytes to b.
func (f Frame) Append(b []byte) []byte {
	b = append(b, f.Kind...)
	for _, field := range f.Fields {
		b = strconv.AppendInt(append(b, ' '), int64(len(field)), 10)
	}
	b = append(b, '\n')
	for _, field := range f.Fields {
		b = append(b, field...)
	}
	return b
}

// Size returns the number of the frame's bytes.
func (f Frame) Size() int {
	size := len(Frame{Kind: f.Kind}.Append(nil))
	for _, field := range f.Fields {
		size += 1 + len(strconv.Itoa(len(field))) + len(field)
	}
	return size
}

// Parser cuts a stream of hostile bytes into frames. Its zero value is ready.
type Parser struct {
	buf  []byte
	need int // bytes of the frame that buf begins with, as far as is known
	head Frame
	lens []int
	at   int // where the fields begin; 0 until the header is complete
	left int // bytes that are still to come of a frame that is dropped
	used uint64
}

// Used returns how many bytes the frames had that were handed over, the current one included.
func (p *Parser) Used() uint64 { return p.used }

// Feed takes the next bytes and calls take for each complete frame. Fields are take's to keep. An error says how the
// stream broke the protocol; the parser is then of no more use.
func (p *Parser) Feed(b []byte, take func(Frame) error) error {
	if p.left > 0 {
		n := min(p.left, len(b))
		if p.left, b = p.left-n, b[n:]; p.left > 0 {
			return nil
		}
		p.used += uint64(p.need)
		p.at = 0
	}
	whole := append(p.grown(len(b)), b...)
	p.buf = whole
	err := p.cut(take)
	switch rest := p.buf; {
	case len(rest) == len(whole): // or each piece of a large frame would move all that came before
	case cap(whole) > keep && len(rest) < cap(whole)/4:
		// nor does the beginning of a small frame keep the memory of a large one
		p.buf = bytes.Clone(rest)
	default:
		p.buf = append(whole[:0], rest...) // once for all frames: many are small
	}
	return err
}

// grown returns buf with room for n more bytes. The buffer of a large frame doubles, up to its size and some of the
// next one: append would leave four times the frame behind.
func (p *Parser) grown(n int) []byte {
	size, most := len(p.buf)+n, p.need+keep
	if p.at == 0 || size <= cap(p.buf) || size > most {
		return p.buf
	}
	return append(make([]byte, 0, min(2*size, most)), p.buf...)
}

func (p *Parser) cut(take func(Frame) error) error {
	for {
		if p.at == 0 {
			if err := p.header(); err != nil || p.at == 0 {
				return err
			}
		}
		if len(p.buf) < p.need {
			return nil
		}
		f := Frame{Kind: p.head.Kind}
		body := bytes.Clone(p.buf[p.at:p.need])
		for _, n := range p.lens {
			f.Fields = append(f.Fields, body[:n:n])
			body = body[n:]
		}
		p.buf = p.buf[p.need:]
		p.used += uint64(p.need)
		p.at = 0
		if err := take(f); err != nil {
			return err
		}
	}
}

// Rest releases memory while no frame is awaited. It drops an incomplete frame of more than some KiB, which take then
// never gets. It returns how many bytes it dropped; those that follow are Dropping.
func (p *Parser) Rest() (dropped int) {
	if p.left > 0 { // it is dropped already
		return 0
	}
	if dropped = len(p.buf); p.at > 0 && p.need > keepResting {
		p.left = p.need - len(p.buf)
		p.buf = nil
		return dropped
	}
	if cap(p.buf) > keepResting {
		p.buf = bytes.Clone(p.buf)
	}
	return 0
}

// Dropping reports whether the next bytes are of a frame that Rest dropped.
func (p *Parser) Dropping() bool { return p.left > 0 }

// Skip drops the next n bytes as the rest of a frame. It is for a parser that has got nothing yet.
func (p *Parser) Skip(n int) { p.left, p.need, p.at = n, n, 1 }

// Size returns the size of the frame that has begun, or 0 before its header is complete.
func (p *Parser) Size() int {
	if p.at == 0 {
		return 0
	}
	return p.need
}

// Pending returns how many bytes are held of a frame that is not complete.
func (p *Parser) Pending() int { return len(p.buf) }

// Empty reports whether the last frame that began is complete.
func (p *Parser) Empty() bool { return len(p.buf) == 0 && p.left == 0 }

// header parses the header line once it is complete.
func (p *Parser) header() error {
	end := bytes.IndexByte(p.buf[:min(len(p.buf), MaxHeader)], '\n')
	if end < 0 {
		if len(p.buf) >= MaxHeader {
			return fmt.Errorf("a header is longer than %d bytes", MaxHeader)
		}
		return nil
	}
	words := bytes.Split(p.buf[:end], []byte{' '})
	if len(words)-1 > MaxFields {
		return fmt.Errorf("a frame has more than %d fields", MaxFields)
	}
	p.head.Kind, p.lens = Kind(words[0]), p.lens[:0]
	total := 0
	for _, word := range words[1:] {
		n, err := strconv.ParseUint(string(word), 10, 31)
		if err != nil || strconv.FormatUint(n, 10) != string(word) {
			return fmt.Errorf("%.20q is not a length", word)
		}
		if total += int(n); total > MaxFrame {
			return fmt.Errorf("a frame is larger than %d bytes", MaxFrame)
		}
		p.lens = append(p.lens, int(n))
	}
	p.at, p.need = end+1, end+1+total
	return nil
}
