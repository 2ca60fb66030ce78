package main

import (
	"context"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type execFlags struct {
	environmentFlags

	interactive bool
	detach      bool
	terminal    bool
	limits      sandbox.Limits
}

func (a *app) newExec() *cobra.Command {
	var f execFlags
	cmd := &cobra.Command{
		Use:   "exec [FLAGS] NAME -- CMD [ARG...]",
		Short: "Run a command in a living sandbox",
		Long: `Exec runs a command in a living sandbox, without a shell, and prints its output as it arrives.
Control-C interrupts the command, a second one cancels it. With --detach it runs until its end or
that of the sandbox, unless it has a --timeout.`,
		Example: `  fumehood exec agent-7 -- ls -la
  fumehood exec -i agent-7 -- wc -l < data.csv
  fumehood exec -it agent-7 -- top
  run=$(fumehood exec --detach agent-7 -- python3 server.py)
  fumehood logs -f agent-7 "$run"`,
	}
	flags := cmd.Flags()
	flags.SetInterspersed(false) // in NAME ls --json, the flag is the command's
	flags.BoolVarP(&f.interactive, "interactive", "i", false, "the command reads our standard input as it arrives")
	flags.BoolVarP(&f.terminal, "tty", "t", false, "the command has our terminal, as with fumehood shell")
	flags.BoolVar(&f.detach, "detach", false, "print the id of the run and leave it running")
	settings.AddTimeout(flags, &f.limits)
	f.environmentFlags.add(flags)
	return a.onServer(cmd, 1, func(ctx context.Context, c *client.Client, args []string) error {
		name, words, err := execWords(args, cmd.ArgsLenAtDash())
		if err != nil {
			return err
		}
		return a.exec(ctx, c, &f, name, words)
	})
}

// execWords splits the words after the flags into the sandbox's name and the command.
func execWords(args []string, atDash int) (name string, words []string, err error) {
	if len(args) == 0 {
		return "", nil, invalid("exec", "needs the name of a sandbox and a command",
			"fumehood exec NAME -- CMD; fumehood ps lists the sandboxes")
	}
	if command := terminal.Quote(args...); atDash == 0 {
		return "", nil, invalid("exec", "needs the name of a living sandbox",
			"fumehood exec NAME -- "+command+"; in a fresh sandbox: fumehood run -- "+command)
	}
	name, words = args[0], args[1:]
	if len(words) > 0 && words[0] == "--" {
		words = words[1:]
	} else if len(words) > 0 && strings.HasPrefix(words[0], "-") {
		return "", nil, invalid("exec", "flags must precede the name of the sandbox",
			"fumehood exec FLAGS "+terminal.Quote(name)+" -- CMD")
	}
	if len(words) == 0 {
		return "", nil, invalid("exec", "there is no command", "fumehood exec "+terminal.Quote(name)+" -- ls -la")
	}
	return name, words, nil
}

func (a *app) exec(ctx context.Context, c *client.Client, f *execFlags, name string, words []string) error {
	if f.detach && f.interactive {
		return invalid("--detach", "cannot be combined with -i", "omit -i or --detach")
	}
	if f.terminal && f.detach {
		return invalid("--detach", "cannot be combined with -t", "omit -t or --detach")
	}
	variables, err := a.environment(&f.environmentFlags)
	if err != nil {
		return err
	}
	if f.terminal {
		if f.limits.Timeout != 0 {
			return invalid("--timeout", "cannot be combined with -t", "fumehood exec -it NAME -- timeout 60 CMD")
		}
		return a.openTerminal(ctx, c, name, client.TerminalRequest{Command: words, Env: variables})
	}
	request := api.SandboxRunRequest{Program: api.Program{Command: words, Env: byName(variables)},
		Interactive: f.interactive && !a.json}
	request.Limits.TimeoutS = secondsOf(f.limits.Timeout)
	if f.interactive && a.json {
		if request.StdinBase64, err = a.programStdin(ctx, &stdinFlags{interactive: true}); err != nil {
			return err
		}
	}
	if f.detach {
		run, err := c.Start(ctx, name, request)
		if err == nil && a.json {
			return a.printJSON(map[string]sandbox.ID{"id": run.ID})
		}
		if err == nil {
			_, err = fmt.Fprintln(a.Stdout, run.ID)
		}
		return err
	}
	x := a.newFollower(c, name, request, destination{})
	if err := x.run(ctx, request.Interactive); err != nil {
		return err
	}
	return x.finish()
}
