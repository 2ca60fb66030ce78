package main

import (
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newStats() *cobra.Command {
	var f serverFlags
	cmd := &cobra.Command{
		Use:   "stats [FLAGS] NAME",
		Short: "Show what a sandbox uses",
		Example: `  fumehood stats agent-7
  fumehood stats --json agent-7`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			c, err := a.openClient(&f)
			if err != nil {
				return err
			}
			defer c.Close()
			u, err := c.Stats(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(u)
			}
			cpu := "-"
			if u.CPUMS != nil {
				cpu = ms(time.Duration(*u.CPUMS * float64(time.Millisecond)))
			}
			return a.showTable([][]string{
				{"AGE", "CPU", "MEMORY", "PEAK", "PROCESSES", "OOM KILLS"},
				{coarse(time.Duration(u.WallMS * float64(time.Millisecond))), cpu,
					bytesOr(u.MemoryBytes), bytesOr(u.PeakMemoryBytes), countOr(u.Pids), countOr(u.OOMKills)},
			})
		},
	}
	f.add(cmd.Flags())
	cmd.ValidArgsFunction = a.completeNames(&f, 1)
	return cmd
}

func bytesOr(n *int64) string {
	if n == nil {
		return "-"
	}
	return sandbox.FormatBytes(*n)
}

func countOr(n *int64) string {
	if n == nil {
		return "-"
	}
	return strconv.FormatInt(*n, 10)
}
