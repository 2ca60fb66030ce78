package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newNetwork() *cobra.Command {
	var summary, follow bool
	cmd := &cobra.Command{
		Use:   "network [FLAGS] NAME",
		Short: "Show the connection attempts of a sandbox",
		Long: `Network shows the connection attempts of a living sandbox, the decision of its network policy about
each, and the rule. The server keeps the last 1000 attempts, also across a restart.`,
		Example: `  fumehood create --name agent-7 --allow api.github.com
  fumehood network agent-7
  fumehood network --summary agent-7
  fumehood network -f agent-7`,
		Args: cobra.ExactArgs(1),
	}
	flags := cmd.Flags()
	flags.BoolVar(&summary, "summary", false, "show totals by host, method and status instead")
	flags.BoolVarP(&follow, "follow", "f", false, "wait for further attempts, until interrupted")
	return a.onServer(cmd, 1, func(ctx context.Context, c *client.Client, args []string) error {
		report, err := c.Network(ctx, args[0])
		switch {
		case err != nil:
			return err
		case summary && a.json:
			report.Attempts = []api.NetworkAttempt{}
			return a.printJSON(report)
		case summary:
			return a.printNetworkTotals(&report)
		case a.json && !follow:
			return a.printJSON(report)
		}
		after := uint64(0)
		for _, attempt := range append(report.Attempts, report.Open...) {
			if err := a.printAttempt(attempt); err != nil {
				return err
			}
			after = max(after, attempt.ID)
		}
		if !follow {
			return nil
		}
		return c.FollowNetwork(ctx, args[0], after, a.printAttempt)
	})
}

// printAttempt prints one attempt on a line: time, decision, protocol, destination, request, bytes, and the rule or the
// reason.
func (a *app) printAttempt(n api.NetworkAttempt) error {
	if a.json {
		return json.NewEncoder(terminal.JSON(a.Stdout)).Encode(n)
	}
	_, err := fmt.Fprintln(a.Stdout, attemptLine(n))
	return err
}

func attemptLine(n api.NetworkAttempt) string {
	decision := "refused"
	switch {
	case n.ID == 0:
		decision = "open"
	case n.Allowed:
		decision = "allowed"
	}
	destination := cmp.Or(n.Name, n.Address)
	if n.Port != 0 {
		destination = net.JoinHostPort(destination, strconv.Itoa(int(n.Port)))
	}
	parts := []string{n.Time.UTC().Format("2006-01-02T15:04:05.000"), decision, n.Protocol, destination}
	if n.Method != "" {
		parts = append(parts, n.Method, n.Path)
	}
	if n.Status != 0 {
		parts = append(parts, strconv.Itoa(n.Status))
	}
	if n.Sent+n.Received > 0 {
		parts = append(parts, fmt.Sprintf("%s up, %s down", sandbox.FormatBytes(n.Sent),
			sandbox.FormatBytes(n.Received)))
	}
	if len(n.Secrets) > 0 {
		parts = append(parts, "with "+strings.Join(n.Secrets, ", "))
	}
	if len(n.Misplaced) > 0 {
		parts = append(parts, "with only the placeholder of "+strings.Join(n.Misplaced, ", "))
	}
	if reason := cmp.Or(n.Reason, n.Rule); reason != "" {
		parts = append(parts, "("+reason+")")
	}
	return terminal.VisibleName(strings.Join(parts, " "))
}

func (a *app) printNetworkTotals(n *api.NetworkReport) error {
	rows := [][]string{{"HOST", "ALLOWED", "REFUSED", "SENT", "RECEIVED"}}
	for _, h := range append(n.Hosts, api.NetworkHost{Host: "all", Allowed: n.Allowed, Refused: n.Refused, Sent: n.Sent,
		Received: n.Received}) {
		rows = append(rows, []string{h.Host, strconv.FormatUint(h.Allowed, 10), strconv.FormatUint(h.Refused, 10),
			sandbox.FormatBytes(h.Sent), sandbox.FormatBytes(h.Received)})
	}
	if err := a.printTable(rows); err != nil {
		return err
	}
	for _, counts := range [][]api.NetworkCount{n.Methods, n.Statuses} {
		var parts []string
		for _, c := range counts {
			parts = append(parts, fmt.Sprintf("%s %d", terminal.VisibleName(c.Of), c.Count))
		}
		if len(parts) > 0 {
			if _, err := fmt.Fprintln(a.Stdout, strings.Join(parts, ", ")); err != nil {
				return err
			}
		}
	}
	return nil
}
