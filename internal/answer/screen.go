package answer

import (
	"strconv"
	"strings"
	"unicode/utf8"
)

// Screen returns text as a terminal shows it at the end: it applies carriage returns, backspaces and the control
// sequences that move the cursor or erase (ECMA-48, sections 8.3.22 to 8.3.57), and drops all others, such as colors.
// A progress bar of thousands of states becomes its last state. Lines are wrapped only on the screen, not in the text.
func Screen(text string) string {
	if strings.IndexFunc(text, moves) < 0 {
		return text
	}
	s := screen{rows: []row{{}}, work: len(text) + freeWork}
	for len(text) > 0 {
		c, size := utf8.DecodeRuneInString(text)
		if c == 0x1b {
			text = s.escape(text)
			continue
		}
		text = text[size:]
		s.put(c)
	}
	return s.end()
}

// moves reports whether a terminal does more than to show a character.
func moves(c rune) bool { return c < ' ' && c != '\n' && c != '\t' || c >= 0x7f && c < 0xa0 }

// Limits of a screen. What has left it cannot be changed any more, as on a terminal.
const (
	maxRows    = 64      // and up to as many again
	maxColumns = 4 << 10 // of a row: a cell takes four bytes
	maxIndent  = 512     // columns that the cursor may move past the end of a row
	maxControl = 256     // bytes of a control sequence
	freeWork   = 4096
)

type screen struct {
	past strings.Builder // rows above the screen
	rows []row
	row  int
	col  int
	free [][]rune // of rows that have left the screen
	work int      // cells that may yet be filled by moving and erasing, which a few bytes do to many
}

// row is a row of the screen.
type row struct {
	cells []rune
	wraps bool // the next row continues its line
}

// put shows a character, or moves the cursor.
func (s *screen) put(c rune) {
	switch {
	case c == '\n':
		s.down()
	case c == '\r':
		s.col = 0
	case c == '\b':
		s.col = max(0, s.col-1)
	case moves(c):
	default:
		if s.col >= maxColumns {
			s.rows[s.row].wraps = true
			s.down()
		}
		line := s.rows[s.row].cells
		if s.work -= max(0, s.col-len(line)); s.work < 0 {
			s.col = min(s.col, len(line))
		}
		for len(line) < s.col {
			line = append(line, ' ')
		}
		if s.col < len(line) {
			line[s.col] = c
		} else {
			line = append(line, c)
		}
		s.rows[s.row].cells = line
		s.col++
	}
}

func (s *screen) down() {
	s.col = 0
	if s.row++; s.row < len(s.rows) {
		return
	}
	if len(s.rows) == 2*maxRows {
		for _, r := range s.rows[:maxRows] {
			s.flush(r)
			s.free = append(s.free, r.cells[:0])
		}
		s.rows = append(s.rows[:0], s.rows[maxRows:]...)
		s.row -= maxRows
	}
	var next row
	if n := len(s.free); n > 0 {
		next.cells, s.free = s.free[n-1], s.free[:n-1]
	}
	s.rows = append(s.rows, next)
}

// flush moves a row above the screen.
func (s *screen) flush(r row) {
	if r.wraps {
		s.past.WriteString(string(r.cells))
		return
	}
	s.past.WriteString(shown(r.cells))
	s.past.WriteByte('\n')
}

// shown is a row without the spaces at its end, which programs print over longer text.
func shown(cells []rune) string { return strings.TrimRight(string(cells), " ") }

func (s *screen) end() string {
	for i, r := range s.rows {
		if i < len(s.rows)-1 {
			s.flush(r)
		} else {
			s.past.WriteString(shown(r.cells))
		}
	}
	return s.past.String()
}

// escape carries out the escape sequence at the start of text, and returns the rest.
func (s *screen) escape(text string) (rest string) {
	if len(text) < 2 {
		return ""
	}
	switch text[1] {
	case '[':
		for i := 2; i < len(text) && i < maxControl; i++ {
			if text[i] >= 0x40 && text[i] <= 0x7e {
				s.control(text[2:i], text[i])
				return text[i+1:]
			}
		}
	case ']', 'P', '^', '_': // a string, up to BEL or ST; another escape cancels it
		end := strings.IndexAny(text[2:min(len(text), maxControl)], "\a\x1b")
		if end < 0 {
			break
		}
		if rest = text[2+end:]; strings.HasPrefix(rest, "\x1b\\") {
			return rest[2:]
		}
		return strings.TrimPrefix(rest, "\a")
	case '(', ')': // a character set
		return text[min(3, len(text)):]
	}
	return text[2:]
}

// control carries out a control sequence.
func (s *screen) control(params string, final byte) {
	n, _ := strconv.Atoi(params)
	count := min(max(n, 1), maxIndent)
	line := s.rows[s.row].cells
	switch final {
	case 'A', 'F':
		s.row = max(0, s.row-count)
	case 'B', 'E':
		s.row = min(len(s.rows)-1, s.row+count)
	case 'C':
		s.col = min(s.col+count, max(s.col, len(line)+maxIndent))
	case 'D':
		s.col = max(0, s.col-count)
	case 'G':
		s.col = count - 1
	case 'K':
		s.erase(n)
	case 'J':
		if n == 0 {
			s.erase(0)
			s.rows = s.rows[:s.row+1]
		}
	}
	if final == 'E' || final == 'F' {
		s.col = 0
	}
}

// erase clears a part of the row: from the cursor to its end, up to the cursor, or all of it.
func (s *screen) erase(part int) {
	line := s.rows[s.row].cells
	s.rows[s.row].wraps = s.rows[s.row].wraps && part == 1
	switch part {
	case 0:
		s.rows[s.row].cells = line[:min(s.col, len(line))]
	case 1:
		if s.work -= min(s.col+1, len(line)); s.work < 0 {
			return
		}
		for i := range min(s.col+1, len(line)) {
			line[i] = ' '
		}
	case 2:
		s.rows[s.row].cells = line[:0]
	}
}
