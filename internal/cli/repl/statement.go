// Package repl splits typed lines into statements and keeps the history of lines.
package repl

import (
	"strings"

	"mvdan.cc/sh/v3/syntax"
)

// Syntax describes where a statement of a language ends. A wrong guess costs the user a second empty line, or the
// language reports an error.
type Syntax struct {
	Prompt, More string // of the first line of a statement, and of further lines

	shell        bool // the rest is for other languages
	lineComment  string
	blockComment bool   // /* */
	quotes       string // of strings
	spanning     string // quotes of strings that may span lines
	python       bool   // strings in three quotes, and blocks by indentation
}

// Syntaxes has the syntax of each language.
var Syntaxes = map[string]Syntax{
	"python":     {Prompt: ">>> ", More: "... ", lineComment: "#", quotes: `'"`, python: true},
	"javascript": {Prompt: "> ", More: "... ", lineComment: "//", blockComment: true, quotes: "'\"`", spanning: "`"},
	"bash":       {Prompt: "$ ", More: "> ", shell: true},
}

// MaxStatement limits the bytes of a statement.
const MaxStatement = 1 << 20

// Statement collects lines until they are a statement that can run.
type Statement struct {
	Syntax
	Pasted bool // the next line comes from a file or a paste, where one empty line ends no block

	lines []string
	size  int
	state state
	block bool // the lines are a compound statement of Python, which an empty line ends
}

// Lines returns the collected lines.
func (s *Statement) Lines() []string { return s.lines }

// Take returns the collected lines as one piece of code, and forgets them. It returns "" if they are blank.
func (s *Statement) Take() string {
	code := strings.Join(s.lines, "\n")
	s.lines, s.size, s.block, s.state = nil, 0, false, state{}
	if strings.TrimSpace(code) == "" {
		return ""
	}
	return code + "\n"
}

// Add adds a line and returns the statements that are complete.
func (s *Statement) Add(line string) (ready []string) {
	empty := strings.TrimSpace(line) == ""
	if len(s.lines) == 0 && empty {
		return nil
	}
	if s.block && !empty && !s.continues(line) && !s.state.open() { // the next statement, as in a file
		ready = append(ready, s.Take())
	}
	second := empty && len(s.lines) > 0 && strings.TrimSpace(s.lines[len(s.lines)-1]) == "" && !s.state.inText()
	s.lines = append(s.lines, line)
	s.size += len(line) + 1
	if s.shell {
		s.parseShell()
	} else {
		s.scan(line)
	}
	switch {
	case s.size > MaxStatement, second:
	case s.state.open():
		return ready
	case s.python && !s.block && (strings.HasPrefix(line, "@") || endsInColon(line)):
		s.block = true
		return ready
	case s.block && (!empty || s.Pasted):
		return ready
	}
	return append(ready, s.Take())
}

// continues reports whether a line belongs to the block before it.
func (s *Statement) continues(line string) bool {
	if line[0] == ' ' || line[0] == '\t' || line[0] == '#' || strings.HasPrefix(s.lines[len(s.lines)-1], "@") {
		return true
	}
	word := strings.TrimRight(strings.Fields(line)[0], ":")
	return word == "else" || word == "elif" || word == "except" || word == "except*" || word == "finally"
}

// endsInColon reports whether a line is the end of a block's head.
func endsInColon(line string) bool {
	line, _, _ = strings.Cut(line, " #")
	return strings.HasSuffix(strings.TrimSpace(line), ":")
}

// state is the syntactic state at the end of the lines.
type state struct {
	incomplete bool // the next line continues the last one, or a statement of a shell
	hereDoc    bool // the lines end in a here-document
	depth      int  // of brackets
	quote      string
	comment    bool // a comment that spans lines
}

// inText reports whether the lines end in text, where empty lines have no meaning.
func (e *state) inText() bool { return e.hereDoc || len(e.quote) == 3 }

func (e *state) open() bool { return e.incomplete || e.depth > 0 || e.quote != "" || e.comment }

// parseShell parses all lines again: statements that people type are short.
func (s *Statement) parseShell() {
	code := strings.Join(s.lines, "\n") + "\n"
	_, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(code), "")
	s.state.hereDoc = err != nil && strings.Contains(err.Error(), "here-document")
	s.state.incomplete = syntax.IsIncomplete(err) || s.state.hereDoc ||
		err == nil && endsInBackslash(code[:len(code)-1])
}

func endsInBackslash(line string) bool {
	return (len(line)-len(strings.TrimRight(line, `\`)))%2 == 1
}

var brackets = map[byte]int{'(': 1, '[': 1, '{': 1, ')': -1, ']': -1, '}': -1}

// scan updates the state by one more line.
func (s *Statement) scan(line string) {
	e := &s.state
	e.incomplete = endsInBackslash(line)
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
			i += s.skipString(rest)
		case c == '\\':
			i += 2
		case strings.HasPrefix(rest, s.lineComment):
			e.incomplete = false
			return
		case s.blockComment && strings.HasPrefix(rest, "/*"):
			e.comment = true
			i += 2
		case strings.IndexByte(s.quotes, c) >= 0:
			e.quote = rest[:1]
			if s.python && strings.HasPrefix(rest, strings.Repeat(e.quote, 3)) {
				e.quote = rest[:3]
			}
			i += len(e.quote)
		default:
			e.depth = max(0, e.depth+brackets[c])
			i++
		}
	}
	if len(e.quote) == 1 && !strings.Contains(s.spanning, e.quote) && !e.incomplete {
		e.quote = "" // the language reports it
	}
}

// skipString returns the size of the rest of the string at the start of text, and leaves the string at its end.
func (s *Statement) skipString(text string) int {
	for i := 0; i < len(text); i++ {
		switch {
		case text[i] == '\\':
			i++
		case strings.HasPrefix(text[i:], s.state.quote):
			end := i + len(s.state.quote)
			s.state.quote = ""
			return end
		}
	}
	return len(text)
}
