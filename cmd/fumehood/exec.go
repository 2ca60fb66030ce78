package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/apiclient"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// execFlags are those of exec.
type execFlags struct {
	environmentFlags
	serverFlags

	interactive bool
	detach      bool
	limits      sandbox.Limits
}

func (a *app) newExec() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec [FLAGS] NAME -- CMD [ARG...]",
		Short: "Run a command in a sandbox that lives",
		Long: `Exec runs a command in a living sandbox, without a shell, and passes its output on as it comes.
Control-C interrupts the command, a second one cancels it. A command ends at its --timeout,
also with --detach.`,
		Example: `  fumehood exec agent-7 -- ls -la
  fumehood exec -i agent-7 -- wc -l < data.csv
  run=$(fumehood exec --detach --timeout 1h agent-7 -- python3 server.py)
  fumehood logs -f agent-7 "$run"`,
		RunE: func(cmd *cobra.Command, args []string) error {
			name, words, err := execWords(args, cmd.ArgsLenAtDash())
			if err != nil {
				return err
			}
			return a.exec(cmd, &f, name, words)
		},
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // in NAME ls --json, the flag is the command's
	flags.BoolVarP(&f.interactive, "interactive", "i", false, "the command reads our standard input, as it comes")
	flags.BoolVar(&f.detach, "detach", false, "print the id of the execution and leave it running")
	addTimeout(flags, &f.limits)
	f.environmentFlags.add(flags)
	f.serverFlags.add(flags)
	cmd.ValidArgsFunction = a.completeNames(&f.serverFlags, 1)
	return cmd
}

// execWords splits the words after the flags into the sandbox's name and the command.
func execWords(args []string, atDash int) (name string, words []string, err error) {
	fail := func(msg, fix string) (string, []string, error) {
		return "", nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "exec", Msg: msg, Fix: fix}
	}
	switch {
	case len(args) == 0:
		return fail("needs the name of a sandbox and a command", "fumehood exec NAME -- CMD; fumehood ps lists the sandboxes")
	case atDash == 0:
		return fail("needs the name of a sandbox that lives",
			"fumehood exec NAME -- "+quoteWords(args)+"; for a sandbox of its own: fumehood run -- "+quoteWords(args))
	}
	name, words = args[0], args[1:]
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	} else if len(words) > 0 && strings.HasPrefix(words[0], "-") {
		return fail("flags come before the name of the sandbox", "fumehood exec FLAGS "+quoteWords(args[:1])+" -- CMD")
	}
	if len(words) == 0 {
		return fail("there is no command", "fumehood exec "+quoteWords(args[:1])+" -- ls -la")
	}
	return name, words, nil
}

func (a *app) exec(cmd *cobra.Command, f *execFlags, name string, words []string) error {
	if f.detach && f.interactive {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "--detach", Msg: "nobody passes standard input on once we left",
			Fix: "leave out -i or --detach"}
	}
	variables, err := a.environment(&f.environmentFlags)
	if err != nil {
		return err
	}
	asks := apiclient.Run{Command: words, Env: byName(variables), Interactive: f.interactive && !a.json}
	asks.Limits.TimeoutS = f.limits.Timeout.Seconds()
	if f.interactive && a.json {
		if asks.StdinBase64, err = a.programStdin(cmd.Context(), &stdinFlags{interactive: true}); err != nil {
			return err
		}
	}
	c, err := a.openClient(&f.serverFlags)
	if err != nil {
		return err
	}
	defer c.Close()
	if f.detach {
		id, err := c.Start(cmd.Context(), name, asks)
		if err == nil && a.json {
			return a.printJSON(map[string]string{"id": id})
		}
		if err == nil {
			_, err = fmt.Fprintln(a.Stdout, id)
		}
		return err
	}
	x := a.newAttached(c, name, asks, nil, "")
	if err := x.run(cmd.Context(), asks.Interactive); err != nil {
		return err
	}
	return x.finish(false)
}
