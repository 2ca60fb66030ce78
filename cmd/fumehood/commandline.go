package main

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// rootNotes end the help of the root command.
const rootNotes = `Example: fumehood run -c 'print(6*7)'
Settings: flags, then variables (FUMEHOOD_MEMORY), then ~/.config/fumehood/config.toml (memory).
Exit codes: the program's; 124 timeout, 125 Fumehood failed, 126 rejected, 130 canceled, 137 killed.
fumehood COMMAND --help shows the flags of a command.`

func (a *app) newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "fumehood COMMAND",
		Short:         "Run untrusted code in a sandbox",
		Long:          "fumehood COMMAND [FLAGS] runs untrusted code in a sandbox and returns its output and files.",
		SilenceErrors: true,
		SilenceUsage:  true,
		Args:          knownCommand,
		RunE:          func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
		Version:       versionOf(),
	}
	root.Flags().SetInterspersed(false) // the fix for hello.py --json has all words
	flags := root.PersistentFlags()
	flags.StringVar(&a.settings.File, "config", "", "read this configuration `FILE` and no other")
	flags.BoolVar(&a.json, "json", false, "print the answer, or the error, as JSON")
	flags.BoolVarP(&a.quiet, "quiet", "q", false, "print results and errors only")
	flags.BoolVar(&a.verbose, "verbose", false, "print the steps, the isolation and the log")
	flags.StringVar(&a.containers.image, "container-image", "",
		"default image `REF` on docker and podman (python:3.12-slim)")
	flags.StringVar(&a.containers.runtime, "container-runtime", "",
		"runtime `NAME` of the container engine, such as runsc")
	a.containers.imageBytes = image.DefaultMaxBytes
	flags.Var(&a.containers.imageBytes, "image-cache-size",
		"maximum size of the images of Fumehood (default "+a.containers.imageBytes.String()+")")
	root.SetFlagErrorFunc(flagError)
	root.SetHelpFunc(printHelp)
	run := a.newRun()
	run.Args, run.RunE = countWords(run.Args), a.withSettings(run.RunE)
	root.AddGroup(&cobra.Group{ID: runGroup, Title: "Run code"})
	addTo(root, runGroup, run)
	if len(a.line.args) > 0 && a.line.args[0] == run.Name() {
		a.settings.Complete = a.addOthers // a run needs their flags only to know the names of settings
		return root
	}
	a.addOthers(root)
	return root
}

// addOthers adds all commands but run.
func (a *app) addOthers(root *cobra.Command) {
	keys, certs, layers, images, templates := a.newKeys(), a.newCerts(), a.newDeps(), a.newImage(), a.newTemplate()
	volumes := a.newVolume()
	addTo(root, runGroup, a.newRepl(), a.newServe(), a.newMCP(), a.newTools())
	grouped(root, storesGroup, "Images, packages, volumes, API keys and certificates", images, templates, layers,
		volumes, keys, certs)
	grouped(root, livingGroup, "Living sandboxes, which a server keeps between runs",
		a.newCreate(), a.newExec(), a.newShell(), a.newPs(), a.newLogs(), a.newCp(), a.newStats(), a.newNetwork(),
		a.newPortForward(), a.newClean(), a.newInterrupt(), a.newRestart(), a.newRm())
	grouped(root, "host", "This host and this program", a.newDoctor(), a.newLanguages(), a.newVerify(), a.newVersion())
	root.SetCompletionCommandGroupID("host")
	root.CompletionOptions.HiddenDefaultCmd = true // so that the help fits a screen; package managers find it
	root.InitDefaultCompletionCmd()
	root.InitDefaultHelpCmd()
	for _, c := range slices.Concat(root.Commands(), keys.Commands(), certs.Commands(), layers.Commands(),
		images.Commands(), templates.Commands(), volumes.Commands()) {
		switch {
		case c.Name() == "completion": // cobra's own succeeds with the help for unknown shells
			c.Args, c.RunE = knownCommand, func(cmd *cobra.Command, _ []string) error { return cmd.Help() }
		case c.Name() == "help":
			c.RunE, c.Hidden = helpOn, true
		case c.RunE != nil && c.Name() != "run":
			c.Args, c.RunE = countWords(c.Args), a.withSettings(c.RunE)
		}
	}
	root.AddCommand(a.newRestoreTerminal())
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

func knownCommand(cmd *cobra.Command, args []string) error {
	if len(args) == 0 {
		return nil
	}
	e := invalid(commandOf(cmd), fmt.Sprintf("unknown command %.64q", args[0]), cmd.CommandPath()+" --help")
	var names []string
	for _, c := range cmd.Commands() {
		names = append(names, c.Name())
	}
	if near := cmp.Or(otherNames[args[0]], nearest.Name(args[0], names)); slices.Contains(names, near) {
		e.Fix = "did you mean " + near + "?"
	} else if strings.ContainsAny(args[0], "./") {
		e.Fix = "fumehood run " + terminal.Quote(args...)
	}
	return e
}

// otherNames maps commands of Docker and Podman to ours.
var otherNames = map[string]string{
	"ls": "ps", "list": "ps", "start": "create", "stop": "rm", "kill": "rm", "delete": "rm"}

// countWords replaces cobra's errors about the number of words by ours.
func countWords(check cobra.PositionalArgs) cobra.PositionalArgs {
	if check == nil {
		return nil
	}
	return func(cmd *cobra.Command, args []string) error {
		err := check(cmd, args)
		var classed *sandbox.Error
		if err == nil || errors.As(err, &classed) {
			return err
		}
		e := invalid(commandOf(cmd), "a word is missing", usageOf(cmd))
		for n := range args {
			if check(cmd, args[:n]) == nil {
				e.Msg = fmt.Sprintf("%.64q is one word too many", args[n])
				if cmd.Flags().Lookup("name") != nil {
					e.Fix = cmd.CommandPath() + " --name " + terminal.Quote(args[n:n+1]...)
				}
			}
		}
		return e
	}
}

// withSettings sets missing flags from variables and the configuration file before the command runs.
func (a *app) withSettings(run func(*cobra.Command, []string) error) func(*cobra.Command, []string) error {
	return func(cmd *cobra.Command, args []string) error {
		if err := a.settings.Apply(cmd, a.Environ(), a.env()); err != nil {
			return err
		}
		return run(cmd, args)
	}
}

// flagError reports an unknown flag or a wrong value.
func flagError(cmd *cobra.Command, err error) error {
	var unknown *pflag.NotExistError
	var invalid *pflag.InvalidValueError
	switch {
	case errors.As(err, &unknown):
		return unknownFlag(cmd, unknown)
	case errors.As(err, &invalid):
		return settings.InvalidValue("--"+invalid.GetFlag().Name, invalid.GetFlag(), invalid.GetValue(),
			invalid.Unwrap())
	}
	return &sandbox.Error{Kind: sandbox.Invalid, Op: commandOf(cmd), Err: err}
}

func unknownFlag(cmd *cobra.Command, err *pflag.NotExistError) error {
	if short := err.GetSpecifiedShortnames(); short != "" {
		return invalid(commandOf(cmd), "unknown flag -"+err.GetSpecifiedName(), cmd.CommandPath()+" --help")
	}
	name := err.GetSpecifiedName()
	var known []string
	cmd.Flags().VisitAll(func(f *pflag.Flag) { known = append(known, f.Name) })
	e := invalid(commandOf(cmd), "unknown flag --"+name, cmd.CommandPath()+" --help")
	if near := nearest.Name(name, known); near != "" {
		e.Fix = "did you mean --" + near + "?"
	}
	return e
}

func commandOf(cmd *cobra.Command) string {
	_, name, _ := strings.Cut(cmd.CommandPath(), " ")
	return name
}
