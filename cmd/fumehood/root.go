package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// rootNotes end the help of the root command.
const rootNotes = `Settings: flags, then variables (FUMEHOOD_MEMORY), then ~/.config/fumehood/config.toml (memory).
Exit codes: the program's; 124 timeout, 125 Fumehood failed, 126 rejected, 130 canceled, 137 killed.
fumehood COMMAND --help shows the flags of a command.`

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "fumehood COMMAND",
		Short:         "Run untrusted code in a sandbox",
		Long:          "fumehood COMMAND [FLAGS] runs untrusted code in a sandbox and returns its output and files.",
		Example:       `  fumehood run -c 'print(6*7)'`,
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:       versionOf(),
	}
	root.Flags().SetInterspersed(false) // for hello.py --json, the fix shows all words
	flags := root.PersistentFlags()
	flags.StringVar(&a.config, "config", "", "read this configuration `FILE` and no other")
	flags.BoolVar(&a.json, "json", false, "print the answer, or the error, as JSON")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "print results and errors only")
	flags.BoolVar(&a.verbose, "verbose", false, "print the steps, the isolation and the log")
	a.containers.add(flags)
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(showHelp)
	keys, layers := a.newKeys(), a.newDeps()
	grouped(root, "run", "Run code", a.newRun(), a.newRepl(), a.newServe(), a.newMCP(), a.newTools(), layers, keys)
	grouped(root, livingGroup, "Sandboxes that live on a server between runs", a.newCreate(), a.newExec(), a.newPs(), a.newLogs(),
		a.newCp(), a.newStats(), a.newNetwork(), a.newPortForward(), a.newClean(), a.newInterrupt(), a.newRestart(), a.newRm())
	grouped(root, "host", "This host and this program", a.newDoctor(), a.newVerify(), a.newVersion())
	root.SetCompletionCommandGroupID("host")
	root.CompletionOptions.HiddenDefaultCmd = true // the help fits a screen; package managers find it
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range slices.Concat(root.Commands(), keys.Commands(), layers.Commands()) {
		switch {
		case c.Name() == "completion": // cobra's own shows help for unknown shells, and succeeds
			c.Args, c.RunE = knownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case c.Name() == "help":
			c.RunE, c.Hidden = helpOn, true
		case c.RunE != nil:
			c.Args, c.RunE = countedWords(c.Args), a.settled(c.RunE)
		}
	}
	return root
}

// helpOn shows the help of the command that args name.
func helpOn(cmd *cobra.Command, args []string) error {
	about, rest, err := cmd.Root().Find(args)
	if err == nil {
		err = knownCommand(about, rest)
	}
	if err != nil {
		return err
	}
	about.InitDefaultHelpFlag()
	return about.Help()
}

// knownCommand refuses an unknown command.
func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: commandOf(cmd), Msg: fmt.Sprintf("there is no command %.64q", args[0]), Fix: cmd.CommandPath() + " --help"}
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if near := cmp.Or(otherNames[args[0]], nearest.Name(args[0], names)); slices.Contains(names, near) {
		e.Fix = "did you mean " + near + "?"
	} else if strings.ContainsAny(args[0], "./") {
		e.Fix = "fumehood run " + quoteWords(args)
	}
	return e
}

// otherNames are what people who know Docker or Podman call our commands.
var otherNames = map[string]string{"ls": "ps", "list": "ps", "start": "create", "stop": "rm", "kill": "rm", "delete": "rm"}

// countedWords puts cobra's errors about the number of words into ours.
func countedWords(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		var classed *sandbox.Error
		if err == nil || errors.As(err, &classed) {
			return err
		}
		e := &sandbox.Error{Kind: sandbox.Invalid, Op: commandOf(cmd), Msg: "a word is missing", Fix: usageOf(cmd)}
		for n := range args {
			if check(cmd, args[:n]) == nil {
				e.Msg = fmt.Sprintf("%.64q is a word too many", args[n])
				if cmd.Flags().Lookup("name") != nil {
					e.Fix = cmd.CommandPath() + " --name " + quoteWords(args[n:n+1])
				}
			}
		}
		return e
	}
}

// settled sets missing flags from variables and the configuration file before the command runs.
func (a *app) settled(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.settle(cmd); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// flagError reports a wrong flag, with the nearest name.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &invalid):
		return wrongValue("--"+invalid.GetFlag().Name, invalid.GetFlag(), invalid.GetValue(), invalid.Unwrap())
	}
	return &sandbox.Error{Kind: sandbox.Invalid, Op: commandOf(cmd), Err: err}
}

// wrongValue reports an invalid value of a flag, in better words than package strconv.
func wrongValue(where string, f *pflag.Flag, value string, err error) error {
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: where}
	var classed *sandbox.Error
	if errors.As(err, &classed) {
		e.Msg, e.Fix = classed.Msg, classed.Fix
		return e
	}
	switch f.Value.Type() {
	case "int", "uint64":
		e.Msg = fmt.Sprintf("%.40q is not a whole number", value)
	case "duration":
		e.Msg = fmt.Sprintf("%.40q is not a duration; write it like 30s", value)
	case "bool":
		e.Msg = fmt.Sprintf("%.40q is neither true nor false", value)
	default:
		e.Err = err
	}
	return e
}

func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	if short := err.GetSpecifiedShortnames(); short != "" {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: commandOf(cmd), Msg: "there is no flag -" + err.GetSpecifiedName(),
			Fix: cmd.CommandPath() + " --help"}
	}
	name := err.GetSpecifiedName()
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: commandOf(cmd), Msg: "there is no flag --" + name, Fix: cmd.CommandPath() + " --help"}
	if near := nearest.Name(name, known); near != "" {
		e.Fix = "did you mean --" + near + "?"
	}
	return e
}

// commandOf is a command's name without our own.
func commandOf(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}
