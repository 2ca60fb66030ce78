package main

import (
	"slices"
	"strings"
)

// syntax is what must be known of a language to tell where a piece of typed code ends. A wrong guess costs a second empty line, or an
// error of the language.
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
	pasted bool // the next line comes from a file or a paste, where one empty line ends nothing
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
	second := empty && len(s.lines) > 0 && strings.TrimSpace(s.lines[len(s.lines)-1]) == "" && !s.end.isText()
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
	case s.block && (!empty || s.pasted):
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
	goesOn  bool   // they end in a backslash, or in an operator of a shell that needs another command

	arguments bool        // of a shell: what precedes are words of a command, among which no word is reserved
	documents []hereBegun // here-documents that are still to come, or to end
}

// hereBegun is a here-document of a shell: it ends with a line that is this word.
type hereBegun struct {
	word string
	tabs bool // tabs may precede it
}

func (e *scanned) isOpen() bool {
	return e.depth+e.words > 0 || e.quote != "" || e.comment || e.goesOn || len(e.documents) > 0
}

// isText reports whether the lines end in text, in which empty lines are as good as others.
func (e *scanned) isText() bool { return len(e.quote) == 3 || len(e.documents) > 0 }

// scan goes over one more line.
func (s *statement) scan(line string) {
	e := &s.end
	if len(e.documents) > 0 {
		here := e.documents[0]
		if here.tabs {
			line = strings.TrimLeft(line, "\t")
		}
		if line == here.word {
			e.documents = e.documents[1:]
		}
		return
	}
	e.arguments = e.arguments && (e.goesOn || e.quote != "")
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
			e.arguments = true
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
			e.arguments = true
		case s.syntax.words:
			i += e.shell(line, i)
		default:
			e.depth = max(0, e.depth+brackets[c])
			i++
		}
	}
	if s.syntax.words && e.quote == "" && endsInOperator(line) {
		e.goesOn = true
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

// shell takes a word, an operator or another character of a shell at i, and returns its size.
func (e *scanned) shell(line string, i int) int {
	rest := line[i:]
	if here, size, ok := hereDocument(line, i); ok {
		e.documents = append(e.documents, here)
		return size
	}
	size := len(rest) - len(strings.TrimLeftFunc(rest, func(r rune) bool { return r < 0x80 && isWordByte(byte(r)) }))
	if size == 0 {
		e.depth = max(0, e.depth+brackets[rest[0]]) // the patterns of a shell's case have no opening one
		e.arguments = e.arguments && (rest[0] == ' ' || rest[0] == '\t') || strings.IndexByte(" \t;&|(){}!`", rest[0]) < 0
		return 1
	}
	if word := rest[:size]; !e.arguments {
		e.words = max(0, e.words+blockWords[word])
		_, opens := blockWords[word]
		e.arguments = !opens && !slices.Contains(commandsFollow, word)
	}
	return size
}

// blockWords open and close blocks of a shell, where a command may stand. What is between for and do is part of the block.
var blockWords = map[string]int{"if": 1, "fi": -1, "case": 1, "esac": -1, "for": 1, "select": 1, "while": 1, "until": 1, "done": -1}

// commandsFollow are the other words after which a command may stand.
var commandsFollow = []string{"then", "else", "elif", "do", "time"}

// hereDocument finds the operator and the word that begin a here-document at i.
func hereDocument(line string, i int) (here hereBegun, size int, ok bool) {
	rest, begins := strings.CutPrefix(line[i:], "<<")
	if !begins || strings.HasPrefix(rest, "<") || i > 0 && line[i-1] == '<' || strings.Contains(line[:i], "((") { // <<< is a string, (( a number
		return here, 0, false
	}
	rest, here.tabs = strings.CutPrefix(rest, "-")
	rest = strings.TrimLeft(rest, " \t")
	end := strings.IndexAny(rest, " \t;&|<>()")
	if end < 0 {
		end = len(rest)
	}
	here.word = strings.NewReplacer("'", "", `"`, "", `\`, "").Replace(rest[:end])
	return here, len(line) - i - len(rest) + end, here.word != ""
}

// endsInOperator reports whether a line of a shell ends where another command must follow.
func endsInOperator(line string) bool {
	line = strings.TrimRight(line, " \t")
	return strings.HasSuffix(line, "&&") || strings.HasSuffix(line, "|") && !strings.HasSuffix(line, `\|`)
}

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
