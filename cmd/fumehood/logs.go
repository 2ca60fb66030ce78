package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/apiclient"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// logsFlags are those of logs.
type logsFlags struct {
	serverFlags

	follow bool
	after  uint64
}

func (a *app) newLogs() *cobra.Command {
	var f logsFlags
	cmd := &cobra.Command{
		Use:   "logs [FLAGS] NAME [RUN]",
		Short: "Show the output of an execution again, or follow it",
		Long: `Logs shows the output of the last execution in a living sandbox, or of RUN, and exits as the
execution did. One that still runs is shown so far; with -f, to its end.`,
		Example: `  fumehood logs agent-7
  fumehood logs -f agent-7 "$run"`,
		Args: cobra.RangeArgs(1, 2),
		RunE: func(cmd *cobra.Command, args []string) error { return a.logs(cmd.Context(), &f, args) },
	}
	flags := cmd.Flags()
	flags.BoolVarP(&f.follow, "follow", "f", false, "go on until the execution ends")
	flags.Uint64Var(&f.after, "after", 0, "only events after the one of this `ID` (with --json, each has its id)")
	_ = flags.SetAnnotation("follow", flagAlone, nil)
	f.serverFlags.add(flags)
	cmd.ValidArgsFunction = a.completeNames(&f.serverFlags, 1)
	return cmd
}

func (a *app) logs(ctx context.Context, f *logsFlags, args []string) error {
	c, err := a.openClient(&f.serverFlags)
	if err != nil {
		return err
	}
	defer c.Close()
	name := args[0]
	run := ""
	if len(args) > 1 {
		run = args[1]
	} else if run, err = lastRun(ctx, c, name); err != nil {
		return err
	}
	stream := func(take func(apiclient.Event) error) error {
		return c.Follow(ctx, name, run, apiclient.From{After: f.after, Wait: f.follow}, take)
	}
	if a.json {
		return stream(func(e apiclient.Event) error {
			return json.NewEncoder(a.Stdout).Encode(map[string]any{"id": e.ID, "event": e.Name, "data": e.Data}) // one a line
		})
	}
	x := a.newAttached(c, name, apiclient.Run{}, nil, "")
	x.show = a.newShow()
	x.values.show = x.show
	err = stream(x.take)
	x.show.end()
	if err != nil || x.answer == nil {
		return unread(err)
	}
	return x.finish(false)
}

// lastRun is the id of the execution that began last.
func lastRun(ctx context.Context, c *apiclient.Client, name string) (string, error) {
	list, err := c.Executions(ctx, name)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", &sandbox.Error{Kind: sandbox.NotFound, Op: "logs", Msg: "nothing has run in " + name + " yet",
			Fix: "fumehood run --in " + name + " -c 'print(1)'"}
	}
	return list[len(list)-1].ID, nil
}
