// Package wording puts hints and errors into the words of each face of Fumehood. Nothing else words them.
package wording

import (
	"cmp"
	"errors"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Hint words hints as sentences that a person or a model can act on. From the program they quote only plain names.
func (f Face) Hint(hints []sandbox.Hint) string {
	return strings.Join(slices.DeleteFunc(f.Each(hints), func(text string) bool { return text == "" }), " ")
}

// Each words each of the hints about one run: all of them say whether the run was interrupted or killed.
func (f Face) Each(hints []sandbox.Hint) []string {
	texts := make([]string, len(hints))
	interrupted := slices.ContainsFunc(hints, func(h sandbox.Hint) bool { return h == sandbox.HintStateKept })
	for i, h := range hints {
		texts[i] = f.sentences(h, interrupted)
	}
	return texts
}

// sentences words one hint. interrupted reports that the run was interrupted and its context kept.
func (f Face) sentences(h sandbox.Hint, interrupted bool) string {
	switch h := h.(type) {
	case sandbox.Note:
		if h == sandbox.HintCanceled && !interrupted {
			return "The run was canceled before it ended, and all its processes were killed."
		}
		return cmp.Or(f.notes[h], notes[h])
	case api.UnknownHint:
		return h.Hint.Text
	}
	return cmp.Or(f.end(h, interrupted), f.reached(h, interrupted), f.tried(h), files(h))
}

// notes has the sentences that are the same on every face.
var notes = map[sandbox.Note]string{
	sandbox.HintInterrupted: "The program ended itself with SIGINT, as an uncaught KeyboardInterrupt does; " +
		"Fumehood did not interrupt it.",
	sandbox.HintCanceled:    "The run was canceled before it ended.",
	sandbox.HintNotStarted:  "The run was canceled before the program was started; nothing ran.",
	sandbox.HintStateKept:   "The code was interrupted; variables and files of the context are still there.",
	sandbox.HintUnreachable: "The program could not reach a host; the network policy refused nothing.",
	sandbox.HintTerminal:    "Code cannot create terminals here. Run the program without one.",
	sandbox.HintFence:       "The code begins with a Markdown fence; send it without the lines of ```.",
	sandbox.HintUserFolder: "The folders of the system are read-only, and uv knows no folder of the user: write " +
		"uv pip install --system --prefix ~/.local NAME, or pip install NAME, or install into an environment of uv venv.",
	sandbox.HintNested: "A browser could not make its own sandbox, which needs namespaces that code cannot create. Start " +
		"it with --no-sandbox: this sandbox confines it.",
	sandbox.HintESModule: "A file that is a module has no require: write import instead.",
	sandbox.HintNoFiles:  "New files could not be read, so not all were returned.",
	sandbox.HintUnlisted: "The workspace holds too many files to examine; the rest was not returned.",
	sandbox.HintPatterns: "The patterns of files to return took too long to match against so many paths; the rest " +
		"was not examined.",
}

// Fix words the fixes of an error in one sentence. It returns "" for an error without a fix.
func (f Face) Fix(err error) string {
	var ways []string
	for _, h := range sandbox.FixesOf(err) {
		if way := f.Way(h); way != "" {
			ways = append(ways, way)
		}
	}
	return strings.Join(ways, "; or ")
}

// Way words one fix of an error.
func (f Face) Way(h sandbox.Hint) string {
	switch h := h.(type) {
	case sandbox.Note:
		return f.notes[h]
	case api.UnknownHint:
		return h.Hint.Text
	case sandbox.FixText:
		return h.Text
	case sandbox.FixInstall:
		if f.languages != "" {
			return "use language " + f.languages + "; or have the operator install it: " + h.Command
		}
		return h.Command
	case sandbox.FixRaise:
		return f.raise(h.Bound)
	case sandbox.FixWaive:
		return "run without: " + f.waive(h.Limits)
	case sandbox.FixParam:
		values := h.Values
		if values == nil {
			values = []string{""}
		}
		set, who := f.set, ""
		if set(h.Param, "") == "" {
			set, who = CommandLine.set, "have the operator "
		}
		return who + h.Purpose + ": " + joined(values, func(value string) string { return set(h.Param, value) }, " or ")
	}
	return ""
}

// Text words an error without its fix. It names parts of the request as the face does.
func (f Face) Text(err error) string {
	var parts []string
	for err != nil {
		// a wrapped one is followed below, behind the words that wrap it
		e, ok := err.(*sandbox.Error) //nolint:errorlint
		if !ok {
			text := err.Error()
			var inner *sandbox.Error
			if errors.As(err, &inner) {
				if before, found := strings.CutSuffix(text, inner.Error()); found {
					text = strings.TrimSuffix(before, ": ")
				}
				err = inner
			} else {
				err = nil
			}
			parts = append(parts, text)
			continue
		}
		parts = append(parts, f.Param(e.Op), e.Msg)
		err = e.Err
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}
