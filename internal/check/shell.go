package check

import "strings"

// command is one simple command of a shell script, in the order in which the ends of commands are read.
type command struct {
	words     []token // without assignments and reserved words; quotes are removed, expansions are as they are written
	redirects []token // files that it writes to
	piped     int     // index of the command whose output it reads; -1 is none
	within    string  // the program one of whose words is this command's output; "" is none
}

// shellFrame is what is open: the script, or a substitution in it.
type shellFrame struct {
	end      byte // ')' or '`'; 0 for the script
	parens   int  // subshells open in it
	quoted   bool // in double quotes
	within   string
	command  command
	pipe     int  // index of the command that ends in a pipe; -1 is none
	redirect bool // the next word is a file that is written to

	inWord bool
	at     place
	word   []byte
}

// maxFrames limits the depth of substitutions; deeper text is not read.
const maxFrames = 500

type shellLexer struct {
	source
	frames    []shellFrame
	commands  []command
	documents []string // ends of those that begin on the next line
}

func lexShell(code []byte) []command {
	l := &shellLexer{source: source{code: code, line: 1}}
	l.push(0, "")
	for l.more() && len(l.frames) < maxFrames {
		l.step()
	}
	for len(l.frames) > 0 {
		l.pop()
	}
	return l.commands
}

func (l *shellLexer) top() *shellFrame { return &l.frames[len(l.frames)-1] }

func (l *shellLexer) push(end byte, within string) {
	l.frames = append(l.frames, shellFrame{end: end, within: within, command: command{piped: -1, within: within}, pipe: -1})
}

func (l *shellLexer) pop() {
	l.endCommand("")
	l.frames = l.frames[:len(l.frames)-1]
	if len(l.frames) > 0 {
		l.add("$()")
	}
}

// add adds to the word of the innermost frame.
func (l *shellLexer) add(piece string) {
	f := l.top()
	if !f.inWord {
		f.inWord, f.at = true, l.source.at()
	}
	f.word = append(f.word, piece...)
}

func (l *shellLexer) endWord() {
	f := l.top()
	if !f.inWord {
		return
	}
	t := token{text, string(f.word), f.at}
	f.inWord, f.word = false, nil
	switch {
	case f.redirect:
		f.redirect = false
		f.command.redirects = append(f.command.redirects, t)
	case len(f.command.words) == 0 && (isReserved(t.text) || isAssignment(t.text)):
	default:
		f.command.words = append(f.command.words, t)
	}
}

func isReserved(word string) bool {
	switch word {
	case "if", "then", "elif", "else", "fi", "do", "done", "while", "until", "{", "}", "!", "time", "esac":
		return true
	}
	return false
}

func isAssignment(word string) bool {
	before, _, ok := strings.Cut(word, "=")
	return ok && before != "" && strings.Trim(before, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_+") == ""
}

// endCommand ends a command at a separator.
func (l *shellLexer) endCommand(separator string) {
	l.endWord()
	f := l.top()
	if len(f.command.words)+len(f.command.redirects) > 0 {
		f.command.piped = f.pipe
		f.pipe = -1
		if separator == "|" {
			f.pipe = len(l.commands)
		}
		l.commands = append(l.commands, f.command)
	} else if separator != "|" && separator != "\n" {
		f.pipe = -1
	}
	f.command = command{piped: -1, within: f.within}
	f.redirect = false
}

// program is the name of the program whose command is being read.
func (f *shellFrame) program() string {
	for _, w := range f.command.words {
		if base := w.text[strings.LastIndexByte(w.text, '/')+1:]; !isPrefix(base) {
			return base
		}
	}
	return ""
}

// step reads one thing.
func (l *shellLexer) step() {
	f := l.top()
	c := l.peek(0)
	switch {
	case c == '\\':
		if l.peek(1) != '\n' && l.peek(1) != 0 {
			l.add(string(l.code[l.pos+1 : l.pos+2]))
		}
		l.skip(2)
	case c == '"':
		l.add("")
		f.quoted = !f.quoted
		l.next()
	case l.has("$(") || !f.quoted && (l.has("<(") || l.has(">(")):
		within := f.program()
		l.add("") // its place
		l.skip(2)
		l.push(')', within)
	case c == '`' && f.end == '`':
		l.next()
		l.pop()
	case c == '`':
		within := f.program()
		l.add("")
		l.next()
		l.push('`', within)
	case f.quoted:
		l.add(string(l.code[l.pos : l.pos+1]))
		l.next()
	case c == '\'':
		l.add("")
		l.next()
		l.add(l.until("'", true, true))
	case c == '#' && !f.inWord:
		l.skipLine()
	case c == ' ' || c == '\t' || c == '\r':
		l.endWord()
		l.next()
	default:
		l.operator(f, c)
	}
}

func (l *shellLexer) operator(f *shellFrame, c byte) {
	switch {
	case c == '\n':
		l.endCommand("\n")
		l.next()
		l.skipDocuments()
	case c == '(':
		f.parens++
		l.endCommand("(")
		l.next()
	case c == ')':
		l.next()
		if f.parens == 0 && f.end == ')' {
			l.pop()
			return
		}
		f.parens = max(0, f.parens-1)
		l.endCommand(")")
	case l.has("&>") || c == '>':
		if c == '&' {
			l.next()
		}
		l.endWord()
		l.next()
		for l.peek(0) == '>' || l.peek(0) == '|' {
			l.next()
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
		l.next()
	case l.has("||") || l.has("&&"):
		l.endCommand("&&")
		l.skip(2)
	case c == '|' || c == '&' || c == ';':
		l.endCommand(string(rune(c)))
		l.next()
	default:
		l.add(string(l.code[l.pos : l.pos+1]))
		l.next()
	}
}

// document notes the end of a here-document.
func (l *shellLexer) document() {
	if l.peek(0) == '-' {
		l.next()
	}
	for l.peek(0) == ' ' || l.peek(0) == '\t' {
		l.next()
	}
	from := l.pos
	for l.more() && !strings.ContainsRune(" \t\n;&|<>()", rune(l.peek(0))) {
		l.next()
	}
	if end := strings.Trim(string(l.code[from:l.pos]), `"'\`); end != "" {
		l.documents = append(l.documents, end)
	}
}

// skipDocuments passes over the here-documents that begin here.
func (l *shellLexer) skipDocuments() {
	for _, end := range l.documents {
		for l.more() {
			from := l.pos
			l.skipLine()
			found := strings.TrimSpace(string(l.code[from:l.pos])) == end
			l.skip(1)
			if found {
				break
			}
		}
	}
	l.documents = nil
}
