package main

import (
	"context"
	"math"

	"github.com/spf13/cobra"
)

// anyWord lets completeNames complete every word.
const anyWord = math.MaxInt

// completeNames completes the first words of a command, or the value of a flag, with the names of living sandboxes. Whoever presses Tab
// sees no errors.
func (a *app) completeNames(f *serverFlags, words int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if len(args) >= words {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		if err := a.settle(cmd); err != nil { // a variable or the configuration may name the server
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.openClient(f)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		list, _ := c.Sandboxes(ctx, nil)
		for _, s := range list {
			names = append(names, s.Shown())
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
