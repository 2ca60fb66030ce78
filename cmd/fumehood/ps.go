package main

import (
	"cmp"
	"fmt"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/apiclient"
)

// shownCommand is how many characters of a command ps shows.
const shownCommand = 60

func (a *app) newPs() *cobra.Command {
	var f serverFlags
	var labels []string
	cmd := &cobra.Command{
		Use:   "ps [FLAGS] [NAME]",
		Short: "List sandboxes that live, or the executions in one",
		Example: `  fumehood ps --label user=alice
  fumehood ps agent-7`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			wanted, err := parseLabels(labels)
			if err != nil {
				return err
			}
			c, err := a.openClient(&f)
			if err != nil {
				return err
			}
			defer c.Close()
			if len(args) == 0 {
				list, err := c.Sandboxes(cmd.Context(), wanted)
				if err != nil {
					return err
				}
				return a.showSandboxes(list)
			}
			list, err := c.Executions(cmd.Context(), args[0])
			if err != nil {
				return err
			}
			return a.showExecutions(list)
		},
	}
	cmd.Flags().StringArrayVar(&labels, "label", nil, "only sandboxes with this label, `NAME=VALUE` (repeatable)")
	f.add(cmd.Flags())
	cmd.ValidArgsFunction = a.completeNames(&f, 1)
	return cmd
}

func (a *app) showSandboxes(list []apiclient.Sandbox) error {
	if a.json {
		return a.printJSON(map[string]any{"sandboxes": list})
	}
	rows := [][]string{{"NAME", "STATE", "BACKEND", "CONTEXTS", "RUNNING", "ENDS"}}
	for i := range list {
		s := &list[i]
		rows = append(rows, []string{s.Shown(), s.State, s.Backend, contextsOf(s), strconv.Itoa(s.Running), endsOf(s)})
	}
	return a.showTable(rows)
}

// contextsOf lists the contexts: their languages, with the name of any that is not the default.
func contextsOf(s *apiclient.Sandbox) string {
	var parts []string
	for _, c := range s.Contexts {
		if c.Name == "default" {
			parts = append(parts, c.Language)
		} else {
			parts = append(parts, c.Name+"("+c.Language+")")
		}
	}
	return cmp.Or(strings.Join(parts, ","), "-")
}

// endsOf is when a sandbox ends if nobody uses it.
func endsOf(s *apiclient.Sandbox) string {
	at := s.AgeEndsAt
	if s.IdleEndsAt != nil && s.IdleEndsAt.Before(at) {
		at = *s.IdleEndsAt
	}
	return "in " + coarse(time.Until(at))
}

func (a *app) showExecutions(list []apiclient.Execution) error {
	if a.json {
		return a.printJSON(map[string]any{"runs": list})
	}
	rows := [][]string{{"ID", "STATUS", "EXIT", "BEGAN", "WHAT"}}
	for i := range list {
		x := &list[i]
		code, what := "-", x.Language+" in "+x.Context
		if x.ExitCode != nil {
			code = strconv.Itoa(*x.ExitCode)
		}
		if len(x.Command) > 0 {
			what = quoteWords(x.Command)
		}
		if shown := []rune(what); len(shown) > shownCommand {
			what = string(shown[:shownCommand]) + "..."
		}
		rows = append(rows, []string{x.ID, x.Status, code, coarse(time.Since(x.BeganAt)) + " ago", what})
	}
	return a.showTable(rows)
}

// showTable prints rows in columns. Cells may hold what a sandbox or another client chose.
func (a *app) showTable(rows [][]string) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = visibleName(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

// coarse is a duration in its largest unit.
func coarse(d time.Duration) string {
	for _, unit := range []struct {
		size time.Duration
		name string
	}{{24 * time.Hour, "d"}, {time.Hour, "h"}, {time.Minute, "m"}} {
		if d >= 2*unit.size {
			return strconv.Itoa(int(d/unit.size)) + unit.name
		}
	}
	return strconv.Itoa(int(max(d, 0)/time.Second)) + "s"
}
