package check

import (
	"slices"
	"strings"
)

// shell checks Bash.
func (f *finder) shell() {
	f.bomb()
	l := &shellLexer{finder: f, source: source{code: f.code}}
	l.run()
}

// judge judges one command. It returns the program that fetches or decodes what the command prints, or "".
func (f *finder) judge(c *command) (fetched string) {
	for _, w := range c.words {
		f.shellWord(w)
	}
	for _, w := range c.redirects {
		f.shellWord(w)
		if isOutside(w.text) {
			f.add(w.at, "outside", "path outside of the workspace "+quoted(w.text))
		}
	}
	words := f.withoutPrefixes(c.words)
	if len(words) == 0 {
		return ""
	}
	program := base(words[0].text)
	f.program(c, words, program)
	if c.fetched != "" && slices.Contains(shells, program) && takesScript(words) {
		f.add(words[0].at, "hidden-code", quoted(c.fetched)+" into "+quoted(program))
	}
	if fetches(words) {
		return program
	}
	return ""
}

func (f *finder) shellWord(w token) {
	f.looks++
	f.word(w.at, w.text)
	if strings.Contains(w.text, "/dev/tcp/") || strings.Contains(w.text, "/dev/udp/") {
		f.add(w.at, "reverse-shell", "connection "+quoted(w.text))
	}
}

// program judges one command by its name and arguments.
func (f *finder) program(c *command, words []token, program string) {
	at := words[0].at
	switch {
	case program == "eval":
		f.add(at, "eval", "call "+quoted(program))
	case slices.Contains(shellNetwork, program):
		f.add(at, "network", "command "+quoted(program))
		if (program == "nc" || program == "ncat" || program == "netcat") && slices.ContainsFunc(words[1:], func(w token) bool { return w.text == "-e" || w.text == "-c" }) {
			f.add(at, "reverse-shell", "a program on a connection")
		}
	case program == "rm":
		f.removes(words)
	case strings.HasPrefix(program, "mkfs"), program == "dd" && slices.ContainsFunc(words, func(w token) bool { return strings.HasPrefix(w.text, "of=/dev/") && isOutside(w.text[3:]) }):
		f.add(at, "destroy", "command "+quoted(program))
	}
	if fetches(words) && c.within != "" && (slices.Contains(shells, c.within) || c.within == "eval" || c.within == "source" || c.within == ".") {
		f.add(at, "hidden-code", quoted(program)+" into "+quoted(c.within))
	}
}

// fetches reports whether a command prints what it downloads or decodes.
func fetches(words []token) bool {
	switch base(words[0].text) {
	case "curl", "wget":
		return true
	case "base64":
		return slices.ContainsFunc(words, func(w token) bool { return w.text == "-d" || w.text == "--decode" || w.text == "-D" })
	}
	return false
}

// takesScript reports whether an interpreter reads its program from stdin: it is given no file and no code.
func takesScript(words []token) bool {
	for _, w := range words[1:] {
		switch {
		case w.text == "-s":
			return true
		case w.text == "-c" || w.text == "-m" || w.text == "-e" || !strings.HasPrefix(w.text, "-"):
			return false
		}
	}
	return true
}

// removes judges rm.
func (f *finder) removes(words []token) {
	recursive := slices.ContainsFunc(words, func(w token) bool {
		return w.text == "--recursive" || strings.HasPrefix(w.text, "-") && !strings.HasPrefix(w.text, "--") && strings.ContainsAny(w.text, "rR")
	})
	for _, w := range words[1:] {
		if recursive && slices.Contains(everything, w.text) {
			f.add(w.at, "destroy", "removal of "+quoted(w.text))
		}
	}
}

// isPrefix reports whether a program runs the one that its arguments name.
func (f *finder) isPrefix(program string) bool {
	f.looks++
	return slices.Contains([]string{"sudo", "env", "nohup", "exec", "command", "builtin", "nice", "xargs", "timeout", "setsid", "doas"}, program)
}

// withoutPrefixes returns the command that really runs.
func (f *finder) withoutPrefixes(words []token) []token {
	for len(words) > 1 && f.isPrefix(base(words[0].text)) {
		words = words[1:]
		for len(words) > 1 && (strings.HasPrefix(words[0].text, "-") || isAssignment(words[0].text) || strings.Trim(words[0].text, "0123456789.smh") == "") {
			words = words[1:]
		}
	}
	return words
}

func base(path string) string { return path[strings.LastIndexByte(path, '/')+1:] }

// bombPattern is a function that pipes itself into itself in the background.
var bombPattern = pattern(`([\w:.-]+)\s*\(\)\s*\{\s*([\w:.-]+)\s*\|\s*([\w:.-]+)\s*&\s*;?\s*\}`)

// endless is a loop that starts itself again.
var endless = pattern(`while\s+(?:true|:|\[\s*1\s*\])\s*;?\s*do\s+(?:"?\$0"?|bash\s+"?\$0"?|\./[\w.-]+)\s*&\s*(?:;\s*)?done`)

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
		f.add(int32(m[0]), "fork-bomb", "a loop without an end that starts itself")
	}
}
