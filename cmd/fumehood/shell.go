package main

import (
	"context"
	"os"
	"sync"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
)

// self is the path of this program, which restores the terminal after kill -9. In tests it is "".
var self string

func (a *app) newShell() *cobra.Command {
	var f environmentFlags
	cmd := &cobra.Command{
		Use:   "shell [FLAGS] NAME",
		Short: "Open a shell in a living sandbox",
		Long: `Shell opens a shell in a living sandbox, Bash if it has it, which has our terminal. All keys go to
the shell, also Control-C; exit or Control-D ends it. It ends with this command. The exit code is
the shell's. Sequences that set the title or the clipboard, or open links, are removed.`,
		Example: `  fumehood shell agent-7
  fumehood exec -it agent-7 -- vim main.py`,
		Args: cobra.ExactArgs(1),
	}
	f.add(cmd.Flags())
	return a.onServer(cmd, 1, func(ctx context.Context, c *client.Client, args []string) error {
		variables, err := a.environment(&f)
		if err != nil {
			return err
		}
		return a.openTerminal(ctx, c, args[0], client.TerminalRequest{Env: variables})
	})
}

// newRestoreTerminal is the command that terminal.Guard starts.
func (a *app) newRestoreTerminal() *cobra.Command {
	return &cobra.Command{Use: terminal.GuardCommand, Hidden: true, Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error { return terminal.RunGuard() }}
}

// openTerminal joins our terminal with a program in a sandbox. Our exit code is the program's.
func (a *app) openTerminal(ctx context.Context, c *client.Client, name string, r client.TerminalRequest) error {
	in := a.Stdin
	out, _ := a.Stdout.(*os.File)
	if !terminal.Is(in) || !terminal.Is(out) || a.json {
		return invalid("terminal", "standard input and output must be a terminal", "fumehood exec -i NAME -- CMD")
	}
	if kind, ok := a.LookupEnv("TERM"); ok {
		r.Env = append([]string{"TERM=" + kind}, r.Env...)
	}
	r.Size.Rows, r.Size.Columns, _ = terminal.Size(out)
	t, err := c.OpenTerminal(ctx, name, r)
	if err != nil {
		return err
	}
	defer t.Close()
	if self != "" {
		if end, err := terminal.Guard(self, in); err == nil { // without it, only a kill -9 leaves the terminal raw
			defer end()
		}
	}
	restore, err := terminal.Raw(in, out)
	if err != nil {
		return err
	}
	defer restore()
	ctx, stop := context.WithCancel(ctx)
	var work sync.WaitGroup
	defer work.Wait()
	defer stop()
	go typeInto(ctx, t, in) // a read of our standard input may never end; the program exits then
	work.Go(func() { a.passSize(ctx, t, out) })
	end, err := t.Follow(ctx, terminal.NewFilter(out))
	switch {
	case err != nil:
		return err
	case end.ExitCode != nil:
		return exitStatus(*end.ExitCode)
	case end.Signal != nil:
		return exitStatus(128 + *end.Signal)
	}
	return exitError(exitFailure)
}

func exitStatus(code int) error {
	if code == 0 {
		return nil
	}
	return exitError(code)
}

// typeInto passes on keys until a read or the connection fails.
func typeInto(ctx context.Context, t *client.Terminal, in *os.File) {
	keys := make([]byte, 4096)
	for {
		n, err := in.Read(keys)
		if n > 0 && t.Input(ctx, keys[:n]) != nil || err != nil {
			return
		}
	}
}

// passSize passes on new sizes of our terminal.
func (a *app) passSize(ctx context.Context, t *client.Terminal, out *os.File) {
	changed, stop := terminal.Resizes()
	defer stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
		}
		rows, columns, ok := terminal.Size(out)
		if ok && t.Resize(ctx, api.TerminalSize{Rows: rows, Columns: columns}) != nil {
			return
		}
	}
}
