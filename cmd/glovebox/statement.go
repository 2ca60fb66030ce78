package main

import "strings"

// syntax is what must be known of a language to tell where a piece of typed code ends. A wrong guess costs a second empty line, or an
// error of
// the language.
type syntax struct {
	prompt, more string
	lineComment  string
	blockComment bool
	quotes       string // of strings
	spanning     string // those of them that may span lines
	triple       bool   // strings in three quotes, and blocks by indentation, as in Python
	words        bool   // blocks in words, as in a shell
}

var syntaxes = map[string]syntax{
	"python":     {prompt: ">>> ", more: "... ", lineComment: "#", quotes: `'"`, triple: true},
	"javascript": {prompt: "> ", more: "... ", lineComment: "//", blockComment: true, quotes: "'\"`", spanning: "`"},
	"bash":       {prompt: "$ ", more: "> ", lineComment: "#", quotes: `'"`, spanning: `'"`, words: true},
}

// maxStatement limits the bytes of a piece of code.
const maxStatement = 1 << 20

// statement gathers lines until they are a piece of code that can run.
type statement struct {
	syntax syntax
	lines  []string
	size   int
	end    scanned
	block  bool // the lines are a compound statement of Python, which an empty line ends
}

// isEmpty reports whether nothing is gathered.
func (s *statement) isEmpty() bool { return len(s.lines) == 0 }

// take returns what is gathered, and forgets it.
func (s *statement) take() string {
	code := strings.Join(s.lines, "\n")
	s.lines, s.size, s.block, s.end = nil, 0, false, scanned{}
	if strings.TrimSpace(code) == "" {
		return ""
	}
	return code + "\n"
}

// add adds a line and returns the pieces of code that are complete.
func (s *statement) add(line string) (ready []string) {
	empty := strings.TrimSpace(line) == ""
	if s.isEmpty() && empty {
		return nil
	}
	if s.block && !empty && !s.continues(line) && !s.end.isOpen() { // the next statement, as in a file
		ready = append(ready, s.take())
	}
	second := empty && len(s.lines) > 0 && strings.TrimSpace(s.lines[len(s.lines)-1]) == ""
	s.lines = append(s.lines, line)
	s.size += len(line) + 1
	s.scan(line)
	switch {
	case s.size > maxStatement, second:
	case s.end.isOpen():
		return ready
	case s.syntax.triple && !s.block && (strings.HasPrefix(line, "@") || endsInColon(s.lines)):
		s.block = true
		return ready
	case s.block && !empty:
		return ready
	}
	return append(ready, s.take())
}

// continues reports whether a line belongs to the block before it.
func (s *statement) continues(line string) bool {
	if line[0] == ' ' || line[0] == '\t' || line[0] == '#' || strings.HasPrefix(s.lines[len(s.lines)-1], "@") {
		return true
	}
	word := strings.TrimRight(strings.Fields(line)[0], ":")
	return word == "else" || word == "elif" || word == "except" || word == "except*" || word == "finally"
}

// endsInColon reports whether the lines are the head of a block. Comments after the colon are rare where people type.
func endsInColon(lines []string) bool {
	last := lines[len(lines)-1]
	if before, _, ok := strings.Cut(last, " #"); ok {
		last = before
	}
	return strings.HasSuffix(strings.TrimSpace(last), ":")
}

// scanned is where the lines so far end.
type scanned struct {
	depth   int    // of brackets
	words   int    // of blocks of a shell
	quote   string // of the string they end in, or ""
	comment bool   // they end in a comment that spans lines
	goesOn  bool   // they end in a backslash
}

func (e *scanned) isOpen() bool { return e.depth+e.words > 0 || e.quote != "" || e.comment || e.goesOn }

// scan goes over one more line.
func (s *statement) scan(line string) {
	e := &s.end
	backslashes := len(line) - len(strings.TrimRight(line, `\`))
	e.goesOn = backslashes%2 == 1
	for i := 0; i < len(line); {
		c, rest := line[i], line[i:]
		switch {
		case e.comment:
			end := strings.Index(rest, "*/")
			if end < 0 {
				return
			}
			e.comment = false
			i += end + 2
		case e.quote != "":
			size, closed := s.quoted(rest)
			if closed {
				e.quote = ""
			}
			i += size
		case c == '\\':
			i += 2
		case s.comments(line, i):
			e.goesOn = false
			return
		case s.syntax.blockComment && strings.HasPrefix(rest, "/*"):
			e.comment = true
			i += 2
		case strings.IndexByte(s.syntax.quotes, c) >= 0:
			e.quote = rest[:1]
			if s.syntax.triple && strings.HasPrefix(rest, strings.Repeat(e.quote, 3)) {
				e.quote = rest[:3]
			}
			i += len(e.quote)
		case s.syntax.words && isWordByte(c):
			size := len(rest) - len(strings.TrimLeftFunc(rest, func(r rune) bool { return r < 0x80 && isWordByte(byte(r)) }))
			e.words = max(0, e.words+blockWords[rest[:size]])
			i += size
		default:
			e.depth = max(0, e.depth+brackets[c]) // the patterns of a shell's case have no opening one
			i++
		}
	}
	if len(e.quote) == 1 && !strings.Contains(s.syntax.spanning, e.quote) && !e.goesOn {
		e.quote = "" // the language reports it
	}
}

var brackets = map[byte]int{'(': 1, '[': 1, '{': 1, ')': -1, ']': -1, '}': -1}

// comments reports whether a comment to the end of the line begins at i.
func (s *statement) comments(line string, i int) bool {
	return strings.HasPrefix(line[i:], s.syntax.lineComment) && (!s.syntax.words || i == 0 || strings.IndexByte(" \t;", line[i-1]) >= 0)
}

// blockWords open and close blocks of a shell.
var blockWords = map[string]int{"if": 1, "fi": -1, "case": 1, "esac": -1, "do": 1, "done": -1}

func isWordByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c == '/' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// quoted measures the rest of the string that the scan is in.
func (s *statement) quoted(text string) (size int, closed bool) {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\' && !(s.syntax.words && s.end.quote == "'"):
			i++
		case strings.HasPrefix(text[i:], s.end.quote):
			return i + len(s.end.quote), true
		}
	}
	return len(text), false
}
