package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/cli/repl"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type replFlags struct {
	boxFlags

	packages packageFlags
	in       inFlags
	language string
	out      string
}

func (a *app) newRepl() *cobra.Command {
	var f replFlags
	cmd := &cobra.Command{
		Use:   "repl [FLAGS]",
		Short: "Type code into a sandbox, line by line",
		Long: `Repl creates a sandbox and runs the code that you type, or that standard input contains, in one
interpreter. It needs no server. Control-C interrupts the code, a second one ends it, and Control-D
ends the sandbox. With --in, the code runs in a living sandbox of a server, which stays.`,
		Example: `  fumehood repl
  fumehood repl --lang javascript --workspace ./data
  fumehood repl --in work`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.runRepl(cmd, &f) },
	}
	flags := cmd.Flags()
	flags.StringVarP(&f.language, "lang", "l", defaultLanguage, "`LANGUAGE` of the code (default "+defaultLanguage+")")
	flags.StringVarP(&f.out, "out", "o", "", "save pictures and other values in `DIR`")
	f.in.add(cmd)
	f.boxFlags.add(cmd)
	f.boxFlags.addHost(cmd)
	f.packages.add(flags)
	completions(cmd, "lang", contextLanguages()...)
	return cmd
}

// replSession runs typed code in a context.
type replSession struct {
	app      *app
	language string
	code     replCode
	lines    terminal.LineReader
	to       destination

	statement repl.Statement // the lines before the one that the user types
	exit      int            // exit code of the last statement
}

// replCode runs code in a context, in a sandbox of this process or of a server.
type replCode interface {
	// run runs one statement and passes its output to view. An exception of the code is no error.
	run(ctx context.Context, code string, view *follower) (*sandbox.Result, error)
	// ended reports whether after an error of run nothing more can run.
	ended(err error) bool
	complete(ctx context.Context, code string, cursor int) (start int, names []string, err error)
}

func (a *app) runRepl(cmd *cobra.Command, f *replFlags) error {
	ctx := cmd.Context()
	if a.json {
		return sandbox.Invalidf("--json", "is not supported by repl")
	}
	if a.Stdin == nil {
		return errNoStdin
	}
	if l, known := languageNamed(f.language); known && l.Driver == nil {
		return unsupported("--lang", l.Title+" keeps no variables between statements",
			"fumehood run -l "+l.Name+" FILE, or a language with contexts: "+strings.Join(contextLanguages(), ", "))
	}
	if f.in.context != "" && f.in.sandbox == "" {
		return invalid("--context", "requires --in", "fumehood repl --in NAME --context "+f.in.context)
	}
	to, err := a.openDestination(f.out, false)
	if err != nil {
		return err
	}
	defer to.close()
	if cmd.Flags().Changed("in") {
		return a.replIn(cmd, f, to)
	}
	spec, err := a.spec(&f.boxFlags)
	if err != nil {
		return err
	}
	return a.withEngine(engine.Config{}, &f.packages, func(e *openedEngine) error {
		run := engine.OneShot{Backend: f.backend, Spec: spec}
		if err := e.chooseForImage(ctx, &run); err != nil {
			return err
		}
		a.recoverAside(ctx, e)
		box, _, err := e.Create(ctx, engine.Create{Backend: run.Backend, Spec: run.Spec,
			// it ends with this process
			Ends: engine.Ends{Idle: new(time.Duration), In: engine.MaxLifetime}})
		if err != nil {
			return err
		}
		c, err := box.CreateContext(ctx, engine.ContextRequest{Name: sandbox.DefaultContext, Language: f.language})
		if err != nil {
			return err
		}
		info := box.Info()
		a.reportUnenforced(info.Effective.Warnings, info.Effective.Unenforced, info.Spec.Named)
		r := &replSession{app: a, to: to, language: c.Info().Language, code: &ownCode{a, box, c}}
		return r.converse(ctx, "a sandbox ("+info.Backend+"); Control-D ends it")
	})
}

// converse reads and runs code until the end of the input.
func (r *replSession) converse(ctx context.Context, where string) error {
	r.statement.Syntax = repl.Syntaxes[r.language]
	history, interactive := r.open(ctx, where)
	err := r.loop(ctx)
	if interactive {
		if err := history.Save(); err != nil {
			r.app.warn("the history was not saved: %s", terminal.OneLine(err.Error()))
		}
	} else if err == nil && r.exit != 0 {
		err = exitError(r.exit)
	}
	return err
}

// open opens the input: a terminal with a history, or a file or pipe.
func (r *replSession) open(ctx context.Context, where string) (_ *repl.History, interactive bool) {
	a := r.app
	out, _ := a.Stdout.(*os.File)
	if !terminal.Is(a.Stdin) || !terminal.Is(out) {
		r.lines = terminal.NewPiped(a.Stdin, repl.MaxStatement)
		return nil, false
	}
	path := a.env().UserStateDir()
	if path != "" {
		path = filepath.Join(path, "history-"+r.language)
	}
	h := repl.OpenHistory(a.host(), path)
	r.lines = terminal.NewEditor(a.Stdin, out, h, func(line string, cursor int) (int, []string) {
		return r.complete(ctx, line, cursor)
	})
	a.note(terminal.Faint, "%s in %s", r.language, where)
	return h, true
}

func (r *replSession) loop(ctx context.Context) error {
	for s := &r.statement; ; {
		prompt := s.Prompt
		if len(s.Lines()) > 0 {
			prompt = s.More
		}
		line, pasted, err := r.lines.ReadLine(ctx, prompt)
		ended := errors.Is(err, io.EOF)
		switch {
		case errors.Is(err, terminal.ErrInterrupted):
			s.Take()
			continue
		case err != nil && !ended:
			return err
		case !ended && len(s.Lines()) == 0 && slices.Contains(leaving, strings.TrimSpace(line)):
			return nil
		}
		var ready []string
		if ended {
			ready = []string{s.Take()}
		} else {
			s.Pasted = pasted
			ready = s.Add(line)
		}
		for _, code := range ready {
			if code == "" {
				continue
			}
			if err := r.run(ctx, code); err != nil {
				return err
			}
		}
		if ended {
			return nil
		}
	}
}

var leaving = []string{"exit", "exit()", "quit", "quit()", ".exit"}

// run runs one statement and passes its output on. An exception of the code is not an error.
func (r *replSession) run(ctx context.Context, code string) error {
	defer r.lines.Hush()()
	view := r.app.newFollower(nil, "", api.SandboxRunRequest{}, r.to)
	result, err := r.code.run(ctx, code, view)
	if err != nil {
		return r.refused(ctx, err)
	}
	if view.output.midLine[sandbox.Stdout] && terminal.Is(r.app.Stdout) {
		fmt.Fprintln(r.app.Stdout)
	}
	view.results.report()
	r.exit = exitCodeOf(result)
	hints := sandbox.WithoutHint[sandbox.HintExitCode](result.Hints) // the code's own error is visible
	if hint := wording.REPL.Hint(hints); hint != "" && !r.app.quiet {
		r.app.say(terminal.Yellow, "hint: %s", terminal.OneLine(hint))
	}
	return nil
}

// refused reports why a statement did not run, for example a package that is unavailable. It returns an error if the
// sandbox or ctx has ended.
func (r *replSession) refused(ctx context.Context, err error) error {
	var exit exitError
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case errors.As(err, &exit) || r.code.ended(err):
		return err
	}
	r.app.fail(err)
	r.exit = exitFailure
	return nil
}

// complete returns the names that fit at the cursor of the line that the user types.
func (r *replSession) complete(ctx context.Context, line string, cursor int) (start int, names []string) {
	ctx, cancel := context.WithTimeout(ctx, completeTimeout)
	defer cancel()
	above := strings.Join(append(slices.Clone(r.statement.Lines()), ""), "\n")
	start, names, err := r.code.complete(ctx, above+line, len(above)+cursor)
	if err != nil {
		return 0, nil
	}
	return start - len(above), names
}
