package main

import (
	"context"
	"encoding/json"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newLogs() *cobra.Command {
	var from client.From
	cmd := &cobra.Command{
		Use:   "logs [FLAGS] NAME [RUN]",
		Short: "Show the output of a run again, or follow it",
		Long: `Logs shows the output of RUN, or of the last run in a living sandbox, and exits with the exit code
of the run. It shows the output so far of an active run; with -f, all until the run ends.`,
		Example: `  fumehood logs agent-7
  fumehood logs -f agent-7 "$run"`,
		Args: cobra.RangeArgs(1, 2),
	}
	flags := cmd.Flags()
	flags.BoolVarP(&from.Wait, "follow", "f", false, "wait until the run ends")
	flags.Uint64Var(&from.After, "after", 0, "only events after the one with this `ID` (--json shows the ids)")
	return a.onServer(cmd, 1, func(ctx context.Context, c *client.Client, args []string) (err error) {
		name, run := args[0], ""
		if len(args) > 1 {
			run = args[1]
		} else if run, err = lastRun(ctx, c, name); err != nil {
			return err
		}
		if a.json {
			return c.Follow(ctx, name, run, from, func(e client.Event) error { // one event a line
				return json.NewEncoder(terminal.JSON(a.Stdout)).Encode(
					map[string]any{"id": e.ID, "event": e.Name, "data": e.Data})
			})
		}
		x := a.newFollower(c, name, api.SandboxRunRequest{}, destination{})
		err = x.follow(ctx, nil, func(ctx context.Context) error { return c.Follow(ctx, name, run, from, x.take) })
		if err != nil || x.answer == nil {
			return readerGone(x.fixCut(err, run))
		}
		return x.finish()
	})
}

// lastRun returns the id of the run that began last.
func lastRun(ctx context.Context, c *client.Client, name string) (string, error) {
	list, err := c.Runs(ctx, name)
	if err != nil {
		return "", err
	}
	if len(list) == 0 {
		return "", &sandbox.Error{Kind: sandbox.NotFound, Op: "logs", Msg: "nothing has run in " + name + " yet",
			Fix: "fumehood run --in " + name + " -c 'print(1)'"}
	}
	return string(list[len(list)-1].ID), nil
}
