package terminal

import "io"

// Filter passes the output of a program in a sandbox on to a terminal, without control strings: OSC, DCS, SOS, PM and
// APC (ECMA-48, section 5.6). With them, output could set the clipboard and the title, open links, or make some
// terminals type. Colours, the cursor and full-screen programs need none.
type Filter struct {
	w     io.Writer
	state filterState
}

type filterState int

const (
	plainText filterState = iota
	escape                // after ESC
	c1                    // after 0xC2, the first byte of a C1 control in UTF-8
	inString
	stringEscape // after ESC in a string
	stringC1     // after 0xC2 in a string
)

const (
	esc = 0x1b
	bel = 0x07
)

// NewFilter returns a filter that writes to w.
func NewFilter(w io.Writer) *Filter { return &Filter{w: w} }

func (f *Filter) Write(p []byte) (int, error) {
	kept := make([]byte, 0, len(p)+1)
	for _, b := range p {
		kept = f.step(kept, b)
	}
	if len(kept) > 0 {
		if _, err := f.w.Write(kept); err != nil {
			return 0, err
		}
	}
	return len(p), nil
}

// step appends what is kept once b has come.
func (f *Filter) step(kept []byte, b byte) []byte {
	switch f.state {
	case plainText:
		return f.begin(kept, b)
	case escape:
		switch b {
		case ']', 'P', 'X', '^', '_':
			f.state = inString
			return kept
		}
		if b < 0x20 && b != esc && b != 0x18 && b != 0x1a || b == 0x7f { // executed within the sequence
			return append(kept, b)
		}
		f.state = plainText
		return f.begin(append(kept, esc), b)
	case c1:
		switch b {
		case 0x9d, 0x90, 0x98, 0x9e, 0x9f:
			f.state = inString
			return kept
		}
		f.state = plainText
		return f.begin(append(kept, 0xc2), b)
	case inString:
		f.inside(b)
	case stringEscape: // ESC \ ends the string; any other sequence cancels it
		f.state = plainText
		if b != '\\' {
			f.state = escape
			return f.step(kept, b)
		}
	case stringC1:
		f.state = inString
		if b == 0x9c {
			f.state = plainText
		} else {
			f.inside(b)
		}
	}
	return kept
}

// inside takes a byte of a string.
func (f *Filter) inside(b byte) {
	switch b {
	case bel, 0x18, 0x1a: // also CAN and SUB end a string
		f.state = plainText
	case esc:
		f.state = stringEscape
	case 0xc2:
		f.state = stringC1
	}
}

func (f *Filter) begin(kept []byte, b byte) []byte {
	switch b {
	case esc:
		f.state = escape
		return kept
	case 0xc2:
		f.state = c1
		return kept
	}
	return append(kept, b)
}
