package main

import "strings"

// syntax is what must be known of a language to tell where a piece of typed code ends. A wrong guess costs a second empty line, or an error of
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
	block  bool // the lines are a compound statement of Python, which an empty line ends
}

// isEmpty reports whether nothing is gathered.
func (s *statement) isEmpty() bool { return len(s.lines) == 0 }

// take returns what is gathered, and forgets it.
func (s *statement) take() string {
	code := strings.Join(s.lines, "\n")
	s.lines, s.size, s.block = nil, 0, false
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
	if s.block && !empty && !s.continues(line) && !s.open() { // the next statement, as in a file
		ready = append(ready, s.take())
	}
	second := empty && len(s.lines) > 0 && strings.TrimSpace(s.lines[len(s.lines)-1]) == ""
	s.lines = append(s.lines, line)
	s.size += len(line) + 1
	switch {
	case s.size > maxStatement, second:
	case s.open():
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

// open reports whether the lines end within brackets, a string, a comment, a block of words, or a line that goes on.
func (s *statement) open() bool {
	text := strings.Join(s.lines, "\n")
	if strings.HasSuffix(text, `\`) && !strings.HasSuffix(text, `\\`) {
		return true
	}
	depth, words := 0, 0
	for i := 0; i < len(text); {
		c, rest := text[i], text[i:]
		switch {
		case c == '\\':
			i += 2
		case strings.HasPrefix(rest, s.syntax.lineComment) && (!s.syntax.words || i == 0 || strings.IndexByte(" \t\n;", text[i-1]) >= 0):
			end := strings.IndexByte(rest, '\n')
			if end < 0 {
				return depth+words > 0
			}
			i += end
		case s.syntax.blockComment && strings.HasPrefix(rest, "/*"):
			end := strings.Index(rest[2:], "*/")
			if end < 0 {
				return true
			}
			i += end + 4
		case strings.IndexByte(s.syntax.quotes, c) >= 0:
			size, closed := s.quoted(rest)
			if !closed {
				return true
			}
			i += size
		case s.syntax.words && isWordByte(c):
			size := 1
			for size < len(rest) && isWordByte(rest[size]) {
				size++
			}
			words = max(0, words+blockWords[rest[:size]])
			i += size
		default:
			switch c {
			case '(', '[', '{':
				depth++
			case ')', ']', '}': // the patterns of a shell's case have no opening one
				depth = max(0, depth-1)
			}
			i++
		}
	}
	return depth+words > 0
}

// blockWords open and close blocks of a shell.
var blockWords = map[string]int{"if": 1, "fi": -1, "case": 1, "esac": -1, "do": 1, "done": -1}

func isWordByte(c byte) bool {
	return c == '_' || c == '-' || c == '.' || c == '/' || c >= '0' && c <= '9' || c|0x20 >= 'a' && c|0x20 <= 'z'
}

// quoted measures the string that text begins with. One that does not span lines ends with its line; the language reports it.
func (s *statement) quoted(text string) (size int, closed bool) {
	quote := text[:1]
	spans := strings.Contains(s.syntax.spanning, quote)
	if s.syntax.triple && strings.HasPrefix(text, strings.Repeat(quote, 3)) {
		quote, spans = text[:3], true
	}
	for i := len(quote); i < len(text); i++ {
		switch {
		case text[i] == '\\' && !(s.syntax.words && quote == "'"):
			i++
		case strings.HasPrefix(text[i:], quote):
			return i + len(quote), true
		case text[i] == '\n' && !spans:
			return i, true
		}
	}
	return len(text), !spans
}
