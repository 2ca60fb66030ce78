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

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newRun() *cobra.Command {
	var f sandboxFlags
	var s source
	var in inFlags
	cmd := &cobra.Command{
		Use:   "run [FLAGS] FILE [ARG...]",
		Short: "Run code or a command in a sandbox",
		Long: `Run starts a fresh sandbox, runs one program in it and removes it. It prints output as it arrives.

  fumehood run [FLAGS] FILE [ARG...]       language by the extension of FILE, or --lang
  fumehood run [FLAGS] -c CODE [ARG...]    Python, or the language of --lang
  fumehood run [FLAGS] - [ARG...]          code from standard input, in the language of --lang
  fumehood run [FLAGS] -- CMD [ARG...]     any command, without a shell
  fumehood run --image NAME [FLAGS]        the entry point of the image

Flags end at FILE or --: the words after it belong to the program.

With --in NAME, the code runs in a living sandbox (fumehood create) and keeps its variables.`,
		Example: `  fumehood run --timeout 2m --memory 1GiB train.py --epochs 3
  fumehood run --in agent-7 -c 'total = 6*7'
  fumehood run --file data.csv --out results analysis.py data.csv
  fumehood run --workspace ./data -- ls -la`,
		RunE: func(cmd *cobra.Command, args []string) error {
			s.hasCode, s.isCommand = cmd.Flags().Changed("code"), cmd.ArgsLenAtDash() == 0
			if in.sandbox != "" || cmd.Flags().Changed("in") {
				return a.runIn(cmd, &in, s, &f, args)
			}
			if cmd.Flags().Changed("context") {
				return invalid("--context", "requires --in: a fresh sandbox has no context",
					"--in NAME --context "+in.context)
			}
			run, err := a.runOf(cmd.Context(), s, &f, args)
			if err != nil {
				return err
			}
			return a.runFresh(cmd.Context(), run, &f)
		},
	}
	cmd.Flags().SetInterspersed(false) // in tool.py --json, the flag is the program's
	cmd.Flags().StringVarP(&s.code, "code", "c", "", "run this `CODE` instead of a file")
	cmd.Flags().StringVarP(&s.language, "lang", "l", "", "`LANGUAGE` of the code (default by the extension of FILE)")
	f.add(cmd)
	a.containers.pull.add(cmd)
	in.add(cmd)
	completions(cmd, "lang", languageNames()...)
	_ = cmd.RegisterFlagCompletionFunc("in", a.completeNames(&in.serverFlags, allWords))
	return cmd
}

// source is the source of the code, or of the command.
type source struct {
	code      string
	hasCode   bool
	isCommand bool // the words are a command
	language  string
}

// runOf turns the command line of run into an engine.OneShot.
func (a *app) runOf(ctx context.Context, s source, f *sandboxFlags, args []string) (engine.OneShot, error) {
	run := engine.OneShot{Backend: f.backend, Request: sandbox.Request{Language: s.language}}
	err := f.stdinFlags.check()
	if err != nil {
		return run, err
	}
	if run.Spec, err = a.spec(&f.boxFlags); err != nil {
		return run, err
	}
	if !f.rm {
		return run, unsupported("--rm", "a fresh sandbox is always removed",
			"omit --rm=false; for a living sandbox: fumehood create, then run --in NAME")
	}
	if err := a.readSource(ctx, s, &run, &f.stdinFlags, args); err != nil {
		return run, err
	}
	return run, a.fillRequest(ctx, &run, f)
}

func (a *app) readSource(ctx context.Context, s source, run *engine.OneShot, f *stdinFlags, args []string) error {
	switch {
	case s.hasCode:
		run.Request.Language = cmp.Or(s.language, defaultLanguage)
		run.Request.Code, run.Request.Args = []byte(s.code), args
	case len(args) == 0 && run.Spec.Root.Image != "" && s.language == "": // the command of the image
	case len(args) == 0:
		return invalid("run", "FILE is missing", "fumehood run FILE, run -c CODE or run -- CMD")
	case s.isCommand && s.language != "":
		return invalid("--lang", "requires code, not a command", "omit --lang, or the --")
	case s.isCommand:
		run.Request.Command = args
	case args[0] == "-" && f.takesStdin():
		return invalid("run", "standard input cannot be both the code and the program's input",
			"give the program's input with --stdin FILE")
	default:
		run.Request.Args = args[1:]
		if err := a.readCode(ctx, run, args); err != nil {
			return err
		}
		return checkLanguage(&run.Request)
	}
	return nil
}

func checkLanguage(r *sandbox.Request) error {
	if r.Language != "" {
		return nil
	}
	name := filepath.Base(cmp.Or(r.FileName, r.Entry))
	supported := strings.Join(languageNames(), ", ")
	if r.FileName == "" && r.Entry == "" {
		return invalid("--lang", "the language of the code is unknown", "--lang python; supported are "+supported)
	}
	if _, known := languageOfFile(name); !known {
		return invalid("--lang", fmt.Sprintf("the extension of %.64q is unknown", name),
			"name its language with --lang; supported are "+supported)
	}
	return nil
}

// readCode reads the code from the file words[0], or from standard input for "-".
func (a *app) readCode(ctx context.Context, run *engine.OneShot, words []string) (err error) {
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
	code, err := a.host().Read("run", file, plan.MaxCode)
	if errors.Is(err, fs.ErrNotExist) {
		return invalid("run", fmt.Sprintf("there is no file %.200q", file), suggest(words))
	}
	run.Request.Code = append([]byte{}, code...) // never nil
	return err
}

// suggest returns a fix for words whose first is not a file: code, a language's program with a file, or a command. It
// returns "" without an idea.
func suggest(words []string) string {
	first := words[0]
	_, isFile := languageOfFile(first)
	_, isInterpreter := findLanguage(func(l sandbox.Language) bool {
		return l.Name == first || slices.Contains(l.Aliases, first) || slices.Contains(l.Programs, first)
	})
	if isInterpreter && len(words) > 1 {
		_, isInterpreter = languageOfFile(words[1])
	}
	switch {
	case isFile:
		return ""
	case strings.ContainsAny(first, "(=\n"):
		return "for code: fumehood run -c " + terminal.Quote(words...)
	case isInterpreter && len(words) > 1 && isLocalFile(words[1]):
		return "for a file: fumehood run " + terminal.Quote(words[1:]...)
	case filepath.Ext(first) != "":
		return ""
	}
	command := "fumehood run"
	for _, word := range words[1:] {
		if isLocalFile(word) { // the sandbox does not have it yet
			command += " --file " + terminal.Quote(word)
		}
	}
	return "for a command: " + command + " -- " + terminal.Quote(words...)
}

func isLocalFile(word string) bool {
	if !filepath.IsLocal(word) || strings.HasPrefix(word, "-") {
		return false
	}
	info, err := os.Stat(word)
	return err == nil && info.Mode().IsRegular()
}

// entryIn returns the path of a file within the workspace, which the sandbox has already.
func entryIn(workspace, file string) (string, bool) {
	if workspace == "" {
		return "", false
	}
	path, err := filepath.Abs(file)
	if err == nil {
		path, err = filepath.EvalSymlinks(path)
	}
	if err != nil || !hostfiles.Within(path, workspace) {
		return "", false
	}
	return filepath.ToSlash(strings.TrimPrefix(path[len(workspace):], string(filepath.Separator))), true
}

// fillRequest fills in the fields that code and commands share.
func (a *app) fillRequest(ctx context.Context, run *engine.OneShot, f *sandboxFlags) error {
	r := &run.Request
	r.Dir = f.workdir
	var err error
	if r.Packages, err = a.packages(&f.neededFlags, r.Command != nil); err != nil {
		return err
	}
	if r.Files, err = a.host().Upload(f.files); err != nil {
		return err
	}
	if run.Spec.Workspace != "" && !f.overwrite {
		if err := hostfiles.CheckOverwrite(r.Files, run.Spec.Workspace); err != nil {
			return err
		}
	}
	r.Return.Globs = f.returns
	switch {
	case f.out != "" && len(f.returns) == 0:
		r.Return.Globs = []string{"**"}
	case f.out == "" && len(f.returns) > 0 && !a.json:
		return invalid("--return", "requires a destination for the files", "--out DIR or --json")
	}
	if f.dryRun {
		return nil
	}
	r.Stdin, err = a.programStdin(ctx, &f.stdinFlags)
	return err
}

// runFresh runs a request in a one-shot sandbox, prints its output and returns its exit code as an error.
func (a *app) runFresh(ctx context.Context, run engine.OneShot, f *sandboxFlags) error {
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	checks, err := f.checks()
	if err != nil {
		return err
	}
	a.line.fresh = true
	config := engine.Config{Slots: 1, Queue: -1, Checks: checks}
	return a.withEngine(config, &f.packageFlags, func(e *openedEngine) error {
		if err := e.chooseForImage(ctx, &run); err != nil {
			return err
		}
		if f.dryRun {
			return a.dryRun(ctx, e.Engine, run)
		}
		to, err := a.openDestination(f.out, f.overwrite)
		if err != nil {
			return err
		}
		defer to.close()
		to.strict = f.strictFiles
		a.recoverAside(ctx, e)
		out := a.newOutput()
		run.Request.Progress = out.progress
		if !a.json {
			run.Request.Output = out.write
		}
		result, err := e.Run(ctx, run)
		out.close()
		if err != nil {
			to.out.Undo()
			return workdirError(err, f.workdir)
		}
		if result.Status == sandbox.StatusRejected {
			to.out.Undo()
		}
		return a.finish(a.endOf(result, out, f.mode != ""), to)
	})
}

// endOf writes the rest of the output and returns the end of a run in a fresh sandbox.
func (a *app) endOf(result *sandbox.Result, out *output, checks bool) *runEnd {
	end := &runEnd{result: result, checks: checks, answer: func(skipped []sandbox.Skipped) any {
		answered := *result
		answered.Skipped = skipped
		return answer.New(wording.CommandLine, &answered, api.Sections...)
	}}
	if a.json {
		return end
	}
	end.err = out.tail(result)
	// saveFiles prints the skipped files.
	end.hint = wording.CommandLine.Hint(sandbox.WithoutHint[sandbox.HintSkipped](out.adjust(result.Hints)))
	return end
}

// workdirError names the flag of a missing working directory, and suggests --workspace for a directory of this host.
func workdirError(err error, workdir string) error {
	var e *sandbox.Error
	if workdir == "" || !errors.As(err, &e) || e.Op != "dir" {
		return err
	}
	fixed := *e
	fixed.Op, fixed.Err = "--workdir", nil
	if info, err := os.Stat(workdir); err == nil && info.IsDir() {
		fixed.Fix = "to use the directory of this host: --workspace " + terminal.Quote(workdir)
	}
	return &fixed
}
