package main

import (
	"context"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newStats() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "stats [FLAGS] NAME",
		Short: "Show the resource usage of a sandbox",
		Example: `  fumehood stats agent-7
  fumehood stats --json agent-7`,
		Args: cobra.ExactArgs(1),
	}
	return a.onServer(cmd, 1, func(ctx context.Context, c *client.Client, args []string) error {
		u, err := c.Stats(ctx, args[0])
		if err != nil {
			return err
		}
		if a.json {
			return a.printJSON(u)
		}
		count := func(n int64) string { return strconv.FormatInt(n, 10) }
		return a.printTable([][]string{
			{"AGE", "CPU", "MEMORY", "PEAK", "PROCESSES", "OOM KILLS"},
			{coarse(duration(u.WallMS)), cell(u.CPUMS, func(n float64) string { return ms(duration(n)) }),
				cell(u.MemoryBytes, sandbox.FormatBytes), cell(u.PeakMemoryBytes, sandbox.FormatBytes),
				cell(u.Pids, count), cell(u.OOMKills, count)},
		})
	})
}

// cell formats a value for a table; nil is unknown.
func cell[T any](value *T, format func(T) string) string {
	if value == nil {
		return "-"
	}
	return format(*value)
}

func duration(ms float64) time.Duration { return time.Duration(ms * float64(time.Millisecond)) }
