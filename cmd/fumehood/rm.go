package main

import (
	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newRm() *cobra.Command {
	var f serverFlags
	var all bool
	cmd := &cobra.Command{
		Use:   "rm [FLAGS] NAME...",
		Short: "End sandboxes that live; their files are lost",
		Example: `  fumehood rm agent-7
  fumehood rm --all`,
		RunE: func(cmd *cobra.Command, names []string) error {
			if all == (len(names) > 0) {
				return &sandbox.Error{Kind: sandbox.Invalid, Op: "rm", Msg: "needs the names of sandboxes, or --all", Fix: "fumehood ps lists them"}
			}
			c, err := a.openClient(&f)
			if err != nil {
				return err
			}
			defer c.Close()
			if all {
				list, err := c.Sandboxes(cmd.Context(), nil)
				if err != nil {
					return err
				}
				for _, s := range list {
					names = append(names, s.ID)
				}
			}
			failed := false
			for _, name := range names {
				err := c.Remove(cmd.Context(), name)
				if err != nil && all && sandbox.KindOf(err) == sandbox.NotFound {
					continue // it ended by itself meanwhile
				}
				if err != nil {
					failed = true
					a.fail(err)
				}
			}
			if failed {
				return exitError(exitFailure)
			}
			return nil
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "end all of yours")
	f.add(cmd.Flags())
	cmd.ValidArgsFunction = a.completeNames(&f, anyWord)
	return cmd
}
