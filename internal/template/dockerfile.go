package template

import (
	"bytes"
	"fmt"
	"regexp"
	"strings"
	"sync"

	"github.com/moby/buildkit/frontend/dockerfile/instructions"
	"github.com/moby/buildkit/frontend/dockerfile/parser"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of a build's text.
const (
	MaxDockerfile = 1 << 20 // bytes
	MaxSteps      = 1000
	maxStages     = 100
	// maxLineWork bounds the lines of a Dockerfile times its bytes: the parser copies a here-document, or a continued
	// line, once for each of its lines. It allows some 20,000 lines in 100 KiB, and takes half a second at most.
	maxLineWork = 1 << 31
)

// kind is the name of an instruction.
type kind string

const (
	kindRun        kind = "RUN"
	kindCopy       kind = "COPY"
	kindAdd        kind = "ADD"
	kindEnv        kind = "ENV"
	kindArg        kind = "ARG"
	kindWorkdir    kind = "WORKDIR"
	kindUser       kind = "USER"
	kindShell      kind = "SHELL"
	kindCommand    kind = "CMD"
	kindEntrypoint kind = "ENTRYPOINT"
)

// instruction is one line of a Dockerfile, or one step.
type instruction struct {
	line    int    // of the Dockerfile; 0 of a step
	text    string // for the log
	kind    kind
	words   []string // RUN, SHELL, CMD, ENTRYPOINT: the command; WORKDIR, USER: one
	inShell bool     // the command is one line for the shell
	pairs   []pair   // ENV, ARG
	copies  copying  // COPY, ADD
	literal bool     // variables are not expanded
}

// pair is a variable.
type pair struct {
	name, value string
	isSet       bool // of ARG: it has a default
}

// copying is what a COPY copies.
type copying struct {
	from    string // stage or image; "" is the context
	sources []string
	inline  []inlineFile
	to      string
	owner   string // USER[:GROUP]
	mode    string // octal
}

// inlineFile is a file whose content is in the Dockerfile.
type inlineFile struct {
	name, content string
	expand        bool
}

// stage is what follows one FROM.
type stage struct {
	line         int
	name         string // "" has none
	base         string
	instructions []instruction
}

// recipe is a parsed build.
type recipe struct {
	escape rune // that of the Dockerfile
	args   []pair
	stages []stage
}

// parseDockerfile parses a Dockerfile, and refuses what is not supported by its line.
func parseDockerfile(text []byte) (*recipe, error) {
	if len(text) > MaxDockerfile {
		return nil, &sandbox.Error{Kind: sandbox.TooLarge, Op: "Dockerfile", Msg: "it is over the limit of 1MiB"}
	}
	if bytes.Count(text, []byte("${")) > maxFileBraces { // the parser recurses as the lexer of words does
		return nil, tooLarge("it has more than 10,000 references ${")
	}
	if int64(bytes.Count(text, []byte("\n")))*int64(len(text)) > maxLineWork {
		return nil, tooLarge("it has too many lines for its size")
	}
	parsed, err := parser.Parse(bytes.NewReader(text))
	if err != nil {
		return nil, unparsable(err)
	}
	stages, args, err := instructions.Parse(parsed.AST, nil)
	if err != nil {
		return nil, unparsable(err)
	}
	r := &recipe{escape: parsed.EscapeToken}
	for _, a := range args {
		r.args = append(r.args, argPairs(&a)...)
	}
	if len(r.args) > maxVariables {
		return nil, tooLarge("it has more than 1000 variables")
	}
	steps := 0
	for _, s := range stages {
		line := lineOf(s.Location)
		if s.Platform != "" {
			return nil, refused(line, "FROM --platform", "the platform is that of this machine; leave it out")
		}
		next := stage{line: line, name: s.Name, base: s.BaseName}
		for _, c := range s.Commands {
			i, err := convert(c)
			if err != nil {
				return nil, err
			}
			if len(i.pairs) > maxWords || len(i.copies.sources) > maxWords {
				return nil, refused(i.line, "more than 1000 words", "")
			}
			next.instructions = append(next.instructions, i)
		}
		if steps += len(s.Commands); steps > MaxSteps || len(r.stages) == maxStages {
			return nil, refused(line, "more than 1000 steps or 100 stages", "")
		}
		r.stages = append(r.stages, next)
	}
	if len(r.stages) == 0 {
		return nil, sandbox.Invalidf("Dockerfile", "it has no FROM")
	}
	return r, nil
}

// unparsable returns the error of a parser, which has the line.
func unparsable(err error) error {
	text := strings.TrimPrefix(err.Error(), "dockerfile parse error on ")
	return &sandbox.Error{Kind: sandbox.Invalid, Op: "Dockerfile", Msg: fmt.Sprintf("%.500s", text)}
}

// refused returns the error for what a Dockerfile may not have.
func refused(line int, what, fix string) error {
	return &sandbox.Error{Kind: sandbox.Invalid, Op: fmt.Sprintf("Dockerfile line %d", line),
		Msg: what + " is not supported", Fix: fix}
}

func lineOf(place []parser.Range) int {
	if len(place) == 0 {
		return 0
	}
	return place[0].Start.Line
}

// convert converts a parsed instruction.
func convert(c instructions.Command) (instruction, error) {
	i := instruction{line: lineOf(c.Location()), kind: kind(strings.ToUpper(c.Name())), text: fmt.Sprint(c)}
	switch c := c.(type) {
	case *instructions.RunCommand:
		return convertRun(i, c)
	case *instructions.CopyCommand:
		if c.Parents || len(c.ExcludePatterns) > 0 {
			return i, refused(i.line, "COPY --parents or --exclude", "name the files, or use .dockerignore")
		}
		i.copies = copying{from: c.From, owner: c.Chown, mode: c.Chmod}
		i.copies.take(c.SourcesAndDest)
	case *instructions.AddCommand:
		if c.Checksum != "" || c.KeepGitDir != nil || c.Unpack != nil || len(c.ExcludePatterns) > 0 {
			return i, refused(i.line, "a flag of ADD", "use COPY")
		}
		for _, source := range c.SourcePaths {
			if isRemote(source) {
				return i, refused(i.line, "ADD of "+fmt.Sprintf("%.80q", source),
					"fetch it by RUN, or copy a local file")
			}
		}
		i.copies = copying{owner: c.Chown, mode: c.Chmod}
		i.copies.take(c.SourcesAndDest)
	case *instructions.EnvCommand:
		for _, kv := range c.Env {
			i.pairs = append(i.pairs, pair{kv.Key, kv.Value, true})
		}
	case *instructions.ArgCommand:
		i.pairs = argPairs(c)
	case *instructions.WorkdirCommand:
		i.words = []string{c.Path}
	case *instructions.UserCommand:
		i.words = []string{c.User}
	case *instructions.ShellCommand:
		i.words = c.Shell
	case *instructions.CmdCommand:
		i.words, i.inShell = c.CmdLine, c.PrependShell
	case *instructions.EntrypointCommand:
		i.words, i.inShell = c.CmdLine, c.PrependShell
	default:
		return i, refused(i.line, string(i.kind), "remove the line")
	}
	return i, nil
}

func argPairs(c *instructions.ArgCommand) (pairs []pair) {
	for _, a := range c.Args {
		p := pair{name: a.Key}
		if a.Value != nil {
			p.value, p.isSet = *a.Value, true
		}
		pairs = append(pairs, p)
	}
	return pairs
}

func (c *copying) take(s instructions.SourcesAndDest) {
	c.sources, c.to = s.SourcePaths, s.DestPath
	for _, f := range s.SourceContents {
		c.inline = append(c.inline, inlineFile{f.Path, f.Data, f.Expand})
	}
}

var remotePattern = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`^(https?|git|ssh|oci)://|^git@`)
})

func isRemote(source string) bool {
	return remotePattern().MatchString(source) || strings.HasSuffix(source, ".git")
}

// isHereDoc reports whether a line is only a here-document.
func isHereDoc(line string) bool {
	h, err := parser.ParseHeredoc(line)
	return err == nil && h != nil
}

// convertRun converts a RUN. Here-documents become part of the line for the shell.
func convertRun(i instruction, c *instructions.RunCommand) (instruction, error) {
	if len(c.FlagsUsed) > 0 {
		return i, refused(i.line, "RUN --"+c.FlagsUsed[0],
			"leave it out; secrets are given by --secret, the network by --allow")
	}
	i.words, i.inShell = c.CmdLine, c.PrependShell
	switch {
	case len(c.Files) == 0:
	case !c.PrependShell || len(c.CmdLine) != 1:
		return i, refused(i.line, "a here-document of a RUN without a shell", "")
	case isHereDoc(c.CmdLine[0]):
		script := c.Files[0].Data
		if c.Files[0].Chomp {
			script = parser.ChompHeredocContent(script)
		}
		if strings.HasPrefix(script, "#!") {
			return i, refused(i.line, "a RUN of a script with #!", "name the interpreter: RUN python3 <<EOF")
		}
		i.words = []string{script}
	default:
		line := c.CmdLine[0]
		for _, f := range c.Files {
			line += "\n" + f.Data + f.Name
		}
		i.words = []string{line}
	}
	return i, nil
}
