package main

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const commandWidth = 60

func (a *app) newPs() *cobra.Command {
	var metadata []string
	cmd := &cobra.Command{
		Use:   "ps [FLAGS] [NAME]",
		Short: "List living sandboxes, or the runs in one",
		Example: `  fumehood ps --metadata user=alice
  fumehood ps agent-7`,
		Args: cobra.MaximumNArgs(1),
	}
	cmd.Flags().StringArrayVar(&metadata, "metadata", nil, "only sandboxes with `NAME=VALUE` (repeatable)")
	return a.onServer(cmd, 1, func(ctx context.Context, c *client.Client, args []string) error {
		wanted, err := parseMetadata(metadata)
		if err != nil {
			return err
		}
		if len(args) == 0 {
			list, err := c.Sandboxes(ctx, wanted)
			if err != nil {
				return err
			}
			return a.printSandboxes(list)
		}
		list, err := c.Runs(ctx, args[0])
		if err != nil {
			return err
		}
		return a.printRuns(list)
	})
}

func (a *app) printSandboxes(list []api.Sandbox) error {
	if a.json {
		return a.printJSON(map[string]any{"sandboxes": list})
	}
	rows := [][]string{{"NAME", "STATE", "BACKEND", "CONTEXTS", "RUNNING", "ENDS", "METADATA"}}
	for i := range list {
		s := &list[i]
		running := strconv.Itoa(s.Running)
		rows = append(rows, []string{s.NameOrID(), string(s.State), s.Backend, contextsOf(s), running, endsOf(s),
			metadataOf(s)})
	}
	return a.printTable(rows)
}

// contextsOf lists the languages of the contexts, with the name of each context that is not the default.
func contextsOf(s *api.Sandbox) string {
	var parts []string
	for _, c := range s.Contexts {
		if c.Name == sandbox.DefaultContext {
			parts = append(parts, c.Language)
		} else {
			parts = append(parts, c.Name+"("+c.Language+")")
		}
	}
	return cmp.Or(strings.Join(parts, ","), "-")
}

const metadataWidth = 40

// metadataOf returns the metadata in one cell, such as mcp=NAME of a sandbox that a session of MCP has made.
func metadataOf(s *api.Sandbox) string {
	var parts []string
	for _, name := range slices.Sorted(maps.Keys(s.Metadata)) {
		parts = append(parts, name+"="+s.Metadata[name])
	}
	return cmp.Or(shortened(strings.Join(parts, ","), metadataWidth), "-")
}

// shortened cuts a text to a number of characters.
func shortened(text string, most int) string {
	if runes := []rune(text); len(runes) > most {
		return string(runes[:most]) + "..."
	}
	return text
}

// endsOf returns the time that an unused sandbox has left.
func endsOf(s *api.Sandbox) string {
	at := s.Lifetime.EndsAt
	if !s.IdleEndsAt.IsZero() && s.IdleEndsAt.Before(at) {
		at = s.IdleEndsAt
	}
	return "in " + coarse(time.Until(at))
}

func (a *app) printRuns(list []api.Run) error {
	if a.json {
		return a.printJSON(map[string]any{"runs": list})
	}
	rows := [][]string{{"ID", "STATUS", "EXIT", "BEGAN", "WHAT"}}
	for i := range list {
		x := &list[i]
		what := x.Language + " in " + x.Context
		if len(x.Command) > 0 {
			what = terminal.Quote(x.Command...)
		}
		what = shortened(what, commandWidth)
		code := cell(x.ExitCode, strconv.Itoa)
		rows = append(rows, []string{string(x.ID), string(x.Status), code, ago(x.BeganAt), what})
	}
	return a.printTable(rows)
}

// printTable prints rows in columns. Cells may contain text of a sandbox or another client.
func (a *app) printTable(rows [][]string) error {
	w := tabwriter.NewWriter(a.Stdout, 0, 0, 2, ' ', 0)
	for _, row := range rows {
		for i := range row {
			row[i] = terminal.VisibleName(row[i])
		}
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	return w.Flush()
}

func ago(at time.Time) string { return coarse(time.Since(at)) + " ago" }

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
