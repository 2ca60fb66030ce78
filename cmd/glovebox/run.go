package main

import (
	"cmp"
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/internal/lang"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func (a *app) newRun() *cobra.Command {
	var f sandboxFlags
	var code, language string
	cmd := &cobra.Command{
		Use:   "run [flags] FILE|- [ARG...]",
		Short: "Run code in a sandbox of its own",
		Long: `Run runs a file, or the code of -c, or with - the code on standard input, in a fresh sandbox that ends with it.

The language is that of the file's extension, or the one of --lang. Arguments after FILE go to the program; those that
begin with a dash go after --. What the program writes is passed on as it comes.`,
		Example: `  glovebox run hello.py
  glovebox run -l python -c 'print(6*7)'
  cat script.sh | glovebox run -l bash -
  glovebox run --file data.csv --out results analysis.py data.csv
  glovebox run app.js --json
  glovebox run --timeout 2m --memory 1GiB train.py -- --epochs 3`,
		RunE: func(cmd *cobra.Command, args []string) error {
			source := source{flags: &f, code: code, hasCode: cmd.Flags().Changed("code"), language: language}
			run, err := a.runOf(cmd.Context(), source, args)
			if err != nil {
				return err
			}
			return a.execute(cmd.Context(), run, &f)
		},
	}
	cmd.Flags().StringVarP(&code, "code", "c", "", "run this `CODE` instead of a file")
	cmd.Flags().StringVarP(&language, "lang", "l", "", "`LANGUAGE` of the code (default: that of the file's extension)")
	f.add(cmd)
	var names []string
	for _, l := range lang.All() {
		names = append(names, l.Name)
	}
	completions(cmd, "lang", names...)
	return cmd
}

// source is where the code of a run comes from.
type source struct {
	flags    *sandboxFlags
	code     string
	hasCode  bool
	language string
}

// runOf turns the command line of run into what is asked of the engine.
func (a *app) runOf(ctx context.Context, s source, args []string) (engine.Run, error) {
	run := engine.Run{Backend: s.flags.backend, Request: sandbox.Request{Language: s.language}}
	var err error
	if run.Spec, err = a.spec(s.flags); err != nil {
		return run, err
	}
	switch {
	case s.hasCode:
		run.Request.Code, run.Request.Args = []byte(s.code), args
	case len(args) == 0:
		return run, &sandbox.Error{Kind: sandbox.Invalid, Op: "run", Msg: "there is nothing to run", Fix: "give a file, - for standard input, or -c CODE"}
	default:
		run.Request.Args = args[1:]
		if err := a.readCode(ctx, &run, args[0]); err != nil {
			return run, err
		}
	}
	if s.language == "" && run.Request.FileName == "" && run.Request.Entry == "" {
		return run, &sandbox.Error{Kind: sandbox.Invalid, Op: "--lang", Msg: "the language of the code is not known", Fix: "say it, as in --lang python"}
	}
	if name := filepath.Base(cmp.Or(run.Request.FileName, run.Request.Entry)); s.language == "" && !spoken(name) {
		return run, &sandbox.Error{Kind: sandbox.Invalid, Op: "--lang", Msg: fmt.Sprintf("%.64q has the extension of no language here", name),
			Fix: cmp.Or(engine.Instead(filepath.Ext(name)), "say its language with --lang; supported are "+languageNames())}
	}
	return run, a.fillRequest(ctx, &run, s.flags, args)
}

// spoken says whether a file's extension tells its language.
func spoken(name string) bool {
	return slices.ContainsFunc(lang.All(), func(l sandbox.Language) bool {
		return slices.Contains(l.Extensions, strings.ToLower(filepath.Ext(name)))
	})
}

func languageNames() string {
	var names []string
	for _, l := range lang.All() {
		names = append(names, l.Name)
	}
	return strings.Join(names, ", ")
}

// readCode reads the code of the file, or of standard input where that is "-".
func (a *app) readCode(ctx context.Context, run *engine.Run, file string) error {
	var err error
	if file == "-" {
		run.Request.Code, err = a.readStdin(ctx, engine.MaxCode)
		return err
	}
	if entry, ok := entryIn(run.Spec.Workspace, file); ok {
		run.Request.Entry = entry
		return nil
	}
	run.Request.FileName = filepath.Base(file)
	run.Request.Code, err = a.readNamed(file, engine.MaxCode, sandbox.FormatBytes(engine.MaxCode)+" of code")
	if err != nil {
		return &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "run", Err: err}
	}
	if run.Request.Code == nil {
		run.Request.Code = []byte{}
	}
	return nil
}

// entryIn returns the path of a file below the workspace, which the sandbox sees by itself.
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

// fillRequest adds what run and exec have in common. args[0], where it is "-", has taken our standard input.
func (a *app) fillRequest(ctx context.Context, run *engine.Run, f *sandboxFlags, args []string) error {
	r := &run.Request
	var err error
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
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--return", Msg: "the files have nowhere to go", Fix: "add --out DIR or --json"}
	}
	taken := r.Command == nil && r.Code != nil && r.FileName == "" && len(args) > 0 && args[0] == "-"
	if taken || f.dryRun {
		return nil
	}
	r.Stdin, err = a.programStdin(ctx, f)
	return err
}
