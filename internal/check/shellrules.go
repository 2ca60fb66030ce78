package check

import (
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/lex"
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
)

// shell checks Bash.
func (f *finder) shell() {
	f.bomb()
	if at := lex.Bash(f.code, f.judge); at >= 0 {
		f.add(at, "unchecked", "substitutions are nested too deep")
	}
}

// judge checks one command. If the command prints downloaded or decoded text, it returns its program, otherwise "".
func (f *finder) judge(c *lex.ShellCommand) (fetched string) {
	for _, w := range c.Words {
		f.shellWord(w)
	}
	for _, w := range c.Redirects {
		f.shellWord(w)
		if isOutside(w.Text) {
			f.add(w.At, "outside", "path outside the workspace "+quoted(w.Text))
		}
	}
	words := f.withoutPrefixes(c.Words)
	if len(words) == 0 {
		return ""
	}
	program := lex.Base(words[0].Text)
	f.program(c, words, program)
	if c.Feeds != "" && slices.Contains(shells, program) && takesScript(words) {
		f.add(words[0].At, "hidden-code", quoted(c.Feeds)+" into "+quoted(program))
	}
	if fetches(words) {
		return program
	}
	return ""
}

func (f *finder) shellWord(w lex.Token) {
	f.looks++
	f.word(w.At, w.Text)
	if strings.Contains(w.Text, "/dev/tcp/") || strings.Contains(w.Text, "/dev/udp/") {
		f.add(w.At, "reverse-shell", "connection "+quoted(w.Text))
	}
}

// program checks one command by its name and arguments.
func (f *finder) program(c *lex.ShellCommand, words []lex.Token, program string) {
	at := words[0].At
	switch {
	case program == "eval":
		f.add(at, "eval", "call "+quoted(program))
	case slices.Contains(shellNetwork, program):
		f.add(at, "network", "command "+quoted(program))
		if slices.Contains([]string{"nc", "ncat", "netcat"}, program) && hasWord(words[1:], "-e", "-c") {
			f.add(at, "reverse-shell", "a program on a connection")
		}
	case program == "rm":
		f.removes(words)
	case strings.HasPrefix(program, "mkfs"), program == "dd" && slices.ContainsFunc(words, overwritesDevice):
		f.add(at, "destroy", "command "+quoted(program))
	}
	if fetches(words) && slices.Contains(append([]string{"eval", "source", "."}, shells...), c.Within) {
		f.add(at, "hidden-code", quoted(program)+" into "+quoted(c.Within))
	}
}

func overwritesDevice(w lex.Token) bool {
	return strings.HasPrefix(w.Text, "of=/dev/") && isOutside(w.Text[3:])
}

func hasWord(words []lex.Token, any ...string) bool {
	return slices.ContainsFunc(words, func(w lex.Token) bool { return slices.Contains(any, w.Text) })
}

// fetches reports whether a command prints downloaded or decoded text.
func fetches(words []lex.Token) bool {
	switch lex.Base(words[0].Text) {
	case "curl", "wget":
		return true
	case "base64":
		return hasWord(words, "-d", "--decode", "-D")
	}
	return false
}

// takesScript reports whether an interpreter reads its program from stdin: its arguments name no file and no code.
func takesScript(words []lex.Token) bool {
	for _, w := range words[1:] {
		switch {
		case w.Text == "-s":
			return true
		case w.Text == "-c" || w.Text == "-m" || w.Text == "-e" || !strings.HasPrefix(w.Text, "-"):
			return false
		}
	}
	return true
}

// removes checks rm.
func (f *finder) removes(words []lex.Token) {
	recursive := slices.ContainsFunc(words, func(w lex.Token) bool {
		short := strings.HasPrefix(w.Text, "-") && !strings.HasPrefix(w.Text, "--")
		return w.Text == "--recursive" || short && strings.ContainsAny(w.Text, "rR")
	})
	for _, w := range words[1:] {
		if recursive && slices.Contains(everything, w.Text) {
			f.add(w.At, "destroy", "removal of "+quoted(w.Text))
		}
	}
}

// withoutPrefixes returns the command that a command like "sudo -u x COMMAND" runs.
func (f *finder) withoutPrefixes(words []lex.Token) []lex.Token {
	isOption := func(word string) bool {
		return strings.HasPrefix(word, "-") || lex.IsAssignment(word) || strings.Trim(word, "0123456789.smh") == ""
	}
	for f.looks++; len(words) > 1 && lex.IsPrefix(lex.Base(words[0].Text)); f.looks++ {
		words = words[1:]
		for len(words) > 1 && isOption(words[0].Text) {
			words = words[1:]
		}
	}
	return words
}

// bombPattern matches a function that pipes itself into itself in the background.
var bombPattern = trace.Pattern(`([\w:.-]+)\s*\(\)\s*\{\s*([\w:.-]+)\s*\|\s*([\w:.-]+)\s*&\s*;?\s*\}`)

// endless matches an endless loop that starts its own script.
var endless = trace.Pattern(`while\s+(?:true|:|\[\s*1\s*\])\s*;?\s*do\s+` +
	`(?:"?\$0"?|bash\s+"?\$0"?|\./[\w.-]+)\s*&\s*(?:;\s*)?done`)

func (f *finder) bomb() {
	if !strings.Contains(f.code, "&") {
		return
	}
	for from := 0; from < len(f.code); {
		m := bombPattern().FindStringSubmatchIndex(f.code[from:])
		if m == nil {
			break
		}
		if of := func(i int) string { return f.code[from+m[2*i] : from+m[2*i+1]] }; of(1) == of(2) && of(2) == of(3) {
			f.add(int32(from+m[0]), "fork-bomb", "a function that starts itself twice")
		}
		from += m[1]
	}
	for _, m := range endless().FindAllStringIndex(f.code, maxOfRule) {
		f.add(int32(m[0]), "fork-bomb", "an endless loop that starts its own script")
	}
}
