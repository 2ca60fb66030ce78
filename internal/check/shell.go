package check

import "strings"

// command is one simple command of a shell script.
type command struct {
	words     []token // without assignments and reserved words; quotes are removed, expansions are as they are written
	redirects []token // files that it writes to
	fetched   string  // the program that fetches or decodes what it reads; "" is none
	within    string  // the program one of whose words is this command's output; "" is none
}

// shellFrame is what is open: the script, or a substitution in it.
type shellFrame struct {
	end      byte    // ')' or '`'; 0 for the script
	parens   int     // subshells open in it
	quoted   bool    // in double quotes
	command  command // that is being read
	program  string  // of the command, once named
	named    bool
	pipe     string // what the command before, which ends in a pipe, fetches with
	redirect bool   // the next word is a file that is written to

	inWord bool
	at     int32
	word   []byte
}

// maxFrames limits the depth of substitutions; deeper text is not read, which is a finding.
const maxFrames = 500

// shellLexer reads commands, and judges each at its end.
type shellLexer struct {
	*finder
	source
	frames    []shellFrame
	documents []string // ends of those that begin on the next line
}

func (l *shellLexer) run() {
	l.push(0, "")
	for l.more() && len(l.frames) < maxFrames {
		l.step()
	}
	if l.more() {
		l.finder.add(l.source.at(), "unchecked", "substitutions are nested too deep")
	}
	for len(l.frames) > 0 {
		l.pop()
	}
}

func (l *shellLexer) top() *shellFrame { return &l.frames[len(l.frames)-1] }

func (l *shellLexer) push(end byte, within string) {
	l.frames = append(l.frames, shellFrame{end: end, command: command{within: within}})
}

func (l *shellLexer) pop() {
	l.endCommand("")
	l.frames = l.frames[:len(l.frames)-1]
	if len(l.frames) > 0 {
		l.extend("$()")
	}
}

// extend adds to the word of the innermost frame.
func (l *shellLexer) extend(piece string) {
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
	t := token{text, f.at, string(f.word)}
	f.inWord, f.word = false, f.word[:0]
	switch {
	case f.redirect:
		f.redirect = false
		f.command.redirects = append(f.command.redirects, t)
	case len(f.command.words) == 0 && (isReserved(t.text) || isAssignment(t.text)):
	default:
		f.command.words = append(f.command.words, t)
		if program := base(t.text); !f.named && !l.isPrefix(program) {
			f.program, f.named = program, true
		}
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

// endCommand ends a command at a separator, and judges it.
func (l *shellLexer) endCommand(separator string) {
	l.endWord()
	f := l.top()
	c := &f.command
	if len(c.words)+len(c.redirects) > 0 {
		c.fetched, f.pipe = f.pipe, ""
		fetched := l.judge(c)
		if separator == "|" {
			f.pipe = fetched
		}
	} else if separator != "|" && separator != "\n" {
		f.pipe = ""
	}
	c.words, c.redirects = c.words[:0], c.redirects[:0]
	f.program, f.named, f.redirect = "", false, false
}

// step reads one thing.
func (l *shellLexer) step() {
	f := l.top()
	c := l.peek(0)
	switch {
	case c == '\\':
		if l.peek(1) != '\n' && l.peek(1) != 0 {
			l.extend(l.source.code[l.pos+1 : l.pos+2])
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
		l.extend(l.source.code[l.pos : l.pos+1])
		l.pos++
	case c == '\'':
		l.extend("")
		literal, _, _ := strings.Cut(l.source.code[l.pos+1:], "'") // a backslash is nothing special
		l.extend(literal)
		l.skip(len(literal) + 2)
	case c == '#' && !f.inWord:
		l.skipLine()
	case c == ' ' || c == '\t' || c == '\r':
		l.endWord()
		l.pos++
	default:
		l.operator(f, c)
	}
}

func (l *shellLexer) operator(f *shellFrame, c byte) {
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
		l.extend(l.source.code[l.pos : l.pos+1])
		l.pos++
	}
}

// document notes the end of a here-document.
func (l *shellLexer) document() {
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
	if end := strings.Trim(l.source.code[from:l.pos], `"'\`); end != "" {
		l.documents = append(l.documents, end)
	}
}

// skipDocuments passes over the here-documents that begin here.
func (l *shellLexer) skipDocuments() {
	for _, end := range l.documents {
		for l.more() {
			from := l.pos
			l.skipLine()
			found := strings.TrimSpace(l.source.code[from:l.pos]) == end
			l.skip(1)
			if found {
				break
			}
		}
	}
	l.documents = nil
}
