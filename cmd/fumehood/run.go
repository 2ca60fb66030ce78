package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newRun() *cobra.Command {
	var f sandboxFlags
	var s source
	var in inFlags
	cmd := &cobra.Command{
		Use:   "run [FLAGS] FILE [ARG...]",
		Short: "Run code or a command in a sandbox",
		Long: `Run starts a fresh sandbox, runs one program in it and removes it. Output is passed on as it comes.

  fumehood run [FLAGS] FILE [ARG...]       the language is that of the extension, or of --lang
  fumehood run [FLAGS] -c CODE [ARG...]    Python, or the language of --lang
  fumehood run [FLAGS] - [ARG...]          code from standard input, in the language of --lang
  fumehood run [FLAGS] -- CMD [ARG...]     any command, without a shell

Flags end at FILE or --: what follows belongs to the program.

With --in NAME, the code runs in a sandbox that lives (fumehood create) and keeps its variables.`,
		Example: `  fumehood run --timeout 2m --memory 1GiB train.py --epochs 3
  fumehood run --in agent-7 -c 'total = 6*7'
  fumehood run --file data.csv --out results analysis.py data.csv
  fumehood run --workspace ./data -- ls -la`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.hasCode, s.isCommand = cmd.Flags().Changed("code"), cmd.ArgsLenAtDash() == 0
			if in.sandbox != "" || cmd.Flags().Changed("in") {
				return a.runIn(cmd, &in, s, &f, args)
			}
			if err := in.unused(cmd); err != nil {
				return err
			}
			run, err := a.runOf(cmd.Context(), s, &f, args)
			if err != nil {
				return err
			}
			return a.execute(cmd.Context(), run, &f)
		},
	}
	cmd.Flags().SetInterspersed(false) // in tool.py --json, the flag is the program's
	cmd.Flags().StringVarP(&s.code, "code", "c", "", "run this `CODE` instead of a file")
	cmd.Flags().StringVarP(&s.language, "lang", "l", "", "`LANGUAGE` of the code (default by the extension of FILE)")
	f.add(cmd)
	in.add(cmd)
	completions(cmd, "lang", languageNames()...)
	_ = cmd.RegisterFlagCompletionFunc("in", a.completeNames(&in.serverFlags, anyWord))
	return cmd
}

// source is the source of a run's code.
type source struct {
	code      string
	hasCode   bool
	isCommand bool // the words are a command
	language  string
}

// defaultLanguage is the language of -c.
const defaultLanguage = "python"

// runOf turns the command line of run into an engine.Run.
func (a *app) runOf(ctx context.Context, s source, f *sandboxFlags, args []string) (engine.Run, error) {
	run := engine.Run{Backend: f.backend, Request: sandbox.Request{Language: s.language}}
	err := f.stdinFlags.check()
	if err != nil {
		return run, err
	}
	if run.Spec, err = a.spec(&f.boxFlags); err != nil {
		return run, err
	}
	if !f.rm {
		return run, &sandbox.Error{Kind: sandbox.Unsupported, Op: "--rm", Msg: "a sandbox of one run is always removed",
			Fix: "leave out --rm=false; for one that lives: fumehood create, then run --in NAME"}
	}
	if err := a.readSource(ctx, s, &run, &f.stdinFlags, args); err != nil {
		return run, err
	}
	return run, a.fillRequest(ctx, &run, f)
}

// readSource reads what is to run.
func (a *app) readSource(ctx context.Context, s source, run *engine.Run, f *stdinFlags, args []string) error {
	if codeFromStdin := !s.hasCode && !s.isCommand && len(args) > 0 && args[0] == "-"; codeFromStdin && f.takesStdin() {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "run", Msg: "standard input cannot be both the code and the program's input", Fix: "give the program's input with --stdin FILE"}
	}
	switch {
	case s.hasCode:
		run.Request.Language = cmp.Or(s.language, defaultLanguage)
		run.Request.Code, run.Request.Args = []byte(s.code), args
	case len(args) == 0:
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "run", Msg: "there is nothing to run", Fix: "fumehood run FILE, run -c CODE or run -- CMD"}
	case s.isCommand && s.language != "":
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--lang", Msg: "goes with code, not with a command", Fix: "leave out --lang, or the --"}
	case s.isCommand:
		run.Request.Command = args
	default:
		run.Request.Args = args[1:]
		if err := a.readCode(ctx, run, args); err != nil {
			return err
		}
		return knownLanguage(&run.Request)
	}
	return nil
}

// knownLanguage refuses code of an unknown language.
func knownLanguage(r *sandbox.Request) error {
	if r.Language != "" {
		return nil
	}
	name := filepath.Base(cmp.Or(r.FileName, r.Entry))
	supported := strings.Join(languageNames(), ", ")
	switch {
	case r.FileName == "" && r.Entry == "":
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--lang", Msg: "the language of the code is unknown", Fix: "--lang python; supported are " + supported}
	case !spoken(name):
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--lang", Msg: fmt.Sprintf("the extension of %.64q is unknown", name),
			Fix: "name its language with --lang; supported are " + supported}
	}
	return nil
}

// spoken reports whether a file's extension is that of a language.
func spoken(name string) bool {
	return slices.ContainsFunc(lang.All(), func(l sandbox.Language) bool {
		return slices.Contains(l.Extensions, strings.ToLower(filepath.Ext(name)))
	})
}

func languageNames() []string {
	var names []string
	for _, l := range lang.All() {
		names = append(names, l.Name)
	}
	return names
}

// readCode reads the code from the file words[0], or from standard input for "-".
func (a *app) readCode(ctx context.Context, run *engine.Run, words []string) error {
	var err error
	file := words[0]
	if file == "-" {
		run.Request.Code, err = a.readStdin(ctx, plan.MaxCode)
		return err
	}
	if entry, ok := entryIn(run.Spec.Workspace, file); ok {
		run.Request.Entry = entry
		return nil
	}
	run.Request.FileName = filepath.Base(file)
	run.Request.Code, err = a.readNamed(file, plan.MaxCode, sandbox.FormatBytes(plan.MaxCode)+" of code")
	if err != nil {
		e := &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "run", Err: err}
		if errors.Is(err, fs.ErrNotExist) {
			e.Msg, e.Err = fmt.Sprintf("there is no file %.200q", file), nil
			e.Fix = meant(words)
		}
		return e
	}
	if run.Request.Code == nil {
		run.Request.Code = []byte{}
	}
	return nil
}

// meant guesses what words are whose first is no file: code, a language's program with a file, or a command. "" is no idea.
func meant(words []string) string {
	first := words[0]
	_, isInterpreter := spokenAs(first)
	isInterpreter = isInterpreter || slices.ContainsFunc(lang.All(), func(l sandbox.Language) bool { return slices.Contains(l.Programs, first) })
	switch {
	case spoken(first):
		return ""
	case strings.ContainsAny(first, "(=\n"):
		return "for code: fumehood run -c " + quoteWords(words)
	case isInterpreter && len(words) > 1 && spoken(words[1]) && isLocalFile(words[1]):
		return "for a file: fumehood run " + quoteWords(words[1:])
	case filepath.Ext(first) != "":
		return ""
	}
	command := "fumehood run"
	for _, word := range words[1:] {
		if isLocalFile(word) { // it is not in the sandbox yet
			command += " --file " + quoteWords([]string{word})
		}
	}
	return "for a command: " + command + " -- " + quoteWords(words)
}

// isLocalFile reports whether a word names a file below this folder.
func isLocalFile(word string) bool {
	if !filepath.IsLocal(word) || strings.HasPrefix(word, "-") {
		return false
	}
	info, err := os.Stat(word)
	return err == nil && info.Mode().IsRegular()
}

// entryIn returns the path of a file in the workspace, which the sandbox has already.
func entryIn(workspace, file string) (string, bool) {
	if workspace == "" {
		return "", false
	}
	path, err := filepath.Abs(file)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil || !within(path, workspace) {
		return "", false
	}
	return filepath.ToSlash(strings.TrimPrefix(path[len(workspace):], string(filepath.Separator))), true
}

// fillRequest fills in what code and commands share.
func (a *app) fillRequest(ctx context.Context, run *engine.Run, f *sandboxFlags) error {
	r := &run.Request
	r.Dir = f.workdir
	var err error
	if r.Packages, err = a.packages(&f.neededFlags, r.Command != nil); err != nil {
		return err
	}
	if r.Files, err = a.readFiles(f.files); err != nil {
		return err
	}
	if err := keepsWorkspace(r.Files, run.Spec.Workspace, f.overwrite); err != nil {
		return err
	}
	r.Return.Globs = f.returns
	switch {
	case f.out != "" && len(f.returns) == 0:
		r.Return.Globs = []string{"**"}
	case f.out == "" && len(f.returns) > 0 && !a.json:
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--return", Msg: "the files have nowhere to go", Fix: "--out DIR or --json"}
	}
	if f.dryRun {
		return nil
	}
	r.Stdin, err = a.programStdin(ctx, &f.stdinFlags)
	return err
}
