package lex

import (
	"slices"
	"strings"
)

// ShellCommand is one simple command of a shell script.
type ShellCommand struct {
	Words     []Token // without assignments and reserved words; quotes are removed, expansions stay as they are written
	Redirects []Token // files that it writes to
	Feeds     string  // result of judge for the command that pipes into it, or ""
	Within    string  // the program that has this command's output among its words; "" is none
}

// shellFrame is the script, or an open substitution in it.
type shellFrame struct {
	end      byte         // ')' or '`'; 0 for the script
	parens   int          // subshells open in it
	quoted   bool         // in double quotes
	command  ShellCommand // that is being read
	program  string       // of the command, once named
	named    bool
	pipe     string // result of judge for the previous command, which ends in a pipe
	redirect bool   // the next word is a file that is written to

	inWord bool
	at     int
	word   []byte
}

// maxFrames limits the depth of substitutions.
const maxFrames = 500

// bashReader reads commands, and judges each at its end.
type bashReader struct {
	*reader
	judge     func(*ShellCommand) string
	frames    []shellFrame
	documents []string // ends of those that begin on the next line
}

// Bash calls judge for each simple command of a script, those in substitutions included; the command is valid until
// judge returns. It does not read substitutions that are nested too deep, and returns their offset, or -1. Unlike the
// parser of package bash, it needs no stack, and accepts any text.
func Bash(code string, judge func(*ShellCommand) (feeds string)) (tooDeep int32) {
	l := &bashReader{reader: read(code), judge: judge}
	l.push(0, "")
	for l.more() && len(l.frames) < maxFrames {
		l.step()
	}
	tooDeep = -1
	if l.more() {
		tooDeep = int32(l.pos)
	}
	for len(l.frames) > 0 {
		l.pop()
	}
	return tooDeep
}

func (l *bashReader) top() *shellFrame { return &l.frames[len(l.frames)-1] }

func (l *bashReader) push(end byte, within string) {
	l.frames = append(l.frames, shellFrame{end: end, command: ShellCommand{Within: within}})
}

func (l *bashReader) pop() {
	l.endCommand("")
	l.frames = l.frames[:len(l.frames)-1]
	if len(l.frames) > 0 {
		l.extend("$()")
	}
}

// extend adds to the word of the innermost frame.
func (l *bashReader) extend(piece string) {
	f := l.top()
	if !f.inWord {
		f.inWord, f.at = true, l.pos
	}
	f.word = append(f.word, piece...)
}

func (l *bashReader) endWord() {
	f := l.top()
	if !f.inWord {
		return
	}
	t := Token{Text, false, int32(f.at), string(f.word)}
	f.inWord, f.word = false, f.word[:0]
	switch {
	case f.redirect:
		f.redirect = false
		f.command.Redirects = append(f.command.Redirects, t)
	case len(f.command.Words) == 0 && (slices.Contains(reserved, t.Text) || IsAssignment(t.Text)):
	default:
		f.command.Words = append(f.command.Words, t)
		if program := Base(t.Text); !f.named && !IsPrefix(program) {
			f.program, f.named = program, true
		}
	}
}

var (
	reserved = strings.Fields("if then elif else fi do done while until { } ! time esac")
	prefixes = strings.Fields("sudo env nohup exec command builtin nice xargs timeout setsid doas")
)

// IsPrefix reports whether a program runs the one that its arguments name.
func IsPrefix(program string) bool {
	return slices.Contains(prefixes, program)
}

// Base returns the name of a program without its folder.
func Base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// IsAssignment reports whether a word assigns a variable.
func IsAssignment(word string) bool {
	before, _, ok := strings.Cut(word, "=")
	isOther := func(r rune) bool { return r >= 0x80 || r != '+' && !isWord(byte(r)) }
	return ok && before != "" && !strings.ContainsFunc(before, isOther)
}

// endCommand ends a command at a separator, and judges it.
func (l *bashReader) endCommand(separator string) {
	l.endWord()
	f := l.top()
	c := &f.command
	if len(c.Words)+len(c.Redirects) > 0 {
		c.Feeds, f.pipe = f.pipe, ""
		if feeds := l.judge(c); separator == "|" {
			f.pipe = feeds
		}
	} else if separator != "|" && separator != "\n" {
		f.pipe = ""
	}
	c.Words, c.Redirects = c.Words[:0], c.Redirects[:0]
	f.program, f.named, f.redirect = "", false, false
}

// step reads one thing.
func (l *bashReader) step() {
	f := l.top()
	c := l.peek(0)
	switch {
	case c == '\\':
		if l.peek(1) != '\n' && l.peek(1) != 0 {
			l.extend(l.code[l.pos+1 : l.pos+2])
		}
		l.skip(2)
	case c == '"':
		l.extend("")
		f.quoted = !f.quoted
		l.pos++
	case l.has("$(") || !f.quoted && (l.has("<(") || l.has(">(")):
		l.extend("") // its place
		l.skip(2)
		l.push(')', f.program)
	case c == '`' && f.end == '`':
		l.pos++
		l.pop()
	case c == '`':
		l.extend("")
		l.pos++
		l.push('`', f.program)
	case f.quoted:
		l.extend(l.code[l.pos : l.pos+1])
		l.pos++
	case c == '\'':
		l.extend("")
		literal, _, _ := strings.Cut(l.code[l.pos+1:], "'") // a backslash is nothing special
		l.extend(literal)
		l.skip(len(literal) + 2)
	case c == '#' && !f.inWord:
		l.skipTo("\n")
	case c == ' ' || c == '\t' || c == '\r':
		l.endWord()
		l.pos++
	default:
		l.operator(f, c)
	}
}

func (l *bashReader) operator(f *shellFrame, c byte) {
	switch {
	case c == '\n':
		l.endCommand("\n")
		l.pos++
		l.skipDocuments()
	case c == '(':
		f.parens++
		l.endCommand("(")
		l.pos++
	case c == ')':
		l.pos++
		if f.parens == 0 && f.end == ')' {
			l.pop()
			return
		}
		f.parens = max(0, f.parens-1)
		l.endCommand(")")
	case l.has("&>") || c == '>':
		if c == '&' {
			l.pos++
		}
		l.endWord()
		l.pos++
		for l.peek(0) == '>' || l.peek(0) == '|' {
			l.pos++
		}
		f.redirect = l.peek(0) != '&' // another descriptor is no file
	case l.has("<<<"):
		l.endWord()
		l.skip(3)
	case l.has("<<"):
		l.endWord()
		l.skip(2)
		l.document()
	case c == '<':
		l.endWord()
		l.pos++
	case l.has("||") || l.has("&&"):
		l.endCommand("&&")
		l.skip(2)
	case c == '|' || c == '&' || c == ';':
		l.endCommand(string(rune(c)))
		l.pos++
	default:
		l.extend(l.code[l.pos : l.pos+1])
		l.pos++
	}
}

// document notes the end of a here-document.
func (l *bashReader) document() {
	if l.peek(0) == '-' {
		l.pos++
	}
	for l.peek(0) == ' ' || l.peek(0) == '\t' {
		l.pos++
	}
	from := l.pos
	for l.more() && !strings.ContainsRune(" \t\n;&|<>()", rune(l.peek(0))) {
		l.pos++
	}
	if end := strings.Trim(l.code[from:l.pos], `"'\`); end != "" {
		l.documents = append(l.documents, end)
	}
}

// skipDocuments passes over the here-documents that begin here.
func (l *bashReader) skipDocuments() {
	for _, end := range l.documents {
		for l.more() {
			from := l.pos
			l.skipTo("\n")
			found := strings.TrimSpace(l.code[from:l.pos]) == end
			l.skip(1)
			if found {
				break
			}
		}
	}
	l.documents = nil
}
