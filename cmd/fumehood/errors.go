package main

import (
	"errors"
	"log/slog"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// invalid returns the error about a wrong request; op names its command or flag.
func invalid(op, msg, fix string) *sandbox.Error {
	return &sandbox.Error{Kind: sandbox.Invalid, Op: op, Msg: msg, Fix: fix}
}

func unsupported(op, msg, fix string) *sandbox.Error {
	return &sandbox.Error{Kind: sandbox.Unsupported, Op: op, Msg: msg, Fix: fix}
}

// fail reports an error and its fix: with --json as a problem of the HTTP API on stdout, otherwise in lines on stderr.
func (a *app) fail(err error) {
	if errors.Is(err, syscall.EPIPE) { // the reader of a list closed it
		return
	}
	if a.json && a.printJSON(problemOf(err)) == nil {
		return
	}
	text, lacks := textOf(err), sandbox.UnenforcedOf(err)
	if a.serveLog.record(slog.LevelError, text, "fix", fixOf(err)) {
		return
	}
	if len(lacks) > 0 {
		text += "; nothing ran"
	}
	a.say(terminal.Red, "error: %s", terminal.OneLine(text))
	if fix := fixOf(err); fix != "" {
		a.say(terminal.Plain, "fix: %s", terminal.OneLine(fix))
	}
	if len(lacks) > 0 && a.verbose {
		a.note(terminal.Faint, "in full: %s", terminal.OneLine(err.Error()))
	}
}

func problemOf(err error) api.Problem {
	return answer.NewProblem(wording.CommandLine, err, textOf(err))
}

// textOf returns what happened, without the fix.
func textOf(err error) string {
	if lacks := sandbox.UnenforcedOf(err); len(lacks) > 0 {
		return "this host cannot enforce " + inWords(namesOf(lacks))
	}
	return wording.CommandLine.Text(err)
}

// fixOf returns the fix in the words of the command line, or "".
func fixOf(err error) string { return wording.CommandLine.Fix(err) }

func namesOf(limits []sandbox.LimitName) []string {
	names := make([]string, len(limits))
	for i, name := range limits {
		names[i] = string(name)
	}
	return names
}

// inWords returns "a", "a and b" or "a, b and c".
func inWords(names []string) string {
	last := len(names) - 1
	if last == 0 {
		return names[0]
	}
	return strings.Join(names[:last], ", ") + " and " + names[last]
}
