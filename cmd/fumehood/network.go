package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/api"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// networkViewFlags are those of network.
type networkViewFlags struct {
	serverFlags

	summary bool
	follow  bool
}

func (a *app) newNetwork() *cobra.Command {
	var f networkViewFlags
	cmd := &cobra.Command{
		Use:   "network [FLAGS] NAME",
		Short: "Show what a sandbox tried to reach",
		Long: `Network shows what a living sandbox tried to reach, what its network policy decided, and by which
rule. The server keeps the last 1000 attempts, also over a restart.`,
		Example: `  fumehood create --name agent-7 --allow api.github.com
  fumehood network agent-7
  fumehood network --summary agent-7
  fumehood network -f agent-7`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error { return a.network(cmd.Context(), &f, args[0]) },
	}
	flags := cmd.Flags()
	flags.BoolVar(&f.summary, "summary", false, "totals by host, method and status instead")
	flags.BoolVarP(&f.follow, "follow", "f", false, "show attempts as they come, until interrupted")
	f.serverFlags.add(flags)
	return cmd
}

func (a *app) network(ctx context.Context, f *networkViewFlags, name string) error {
	c, err := a.openClient(&f.serverFlags)
	if err != nil {
		return err
	}
	defer c.Close()
	report, err := c.Network(ctx, name)
	switch {
	case err != nil:
		return err
	case f.summary && a.json:
		report.Attempts = []api.NetworkAttempt{}
		return a.printJSON(report)
	case f.summary:
		return a.networkSummary(&report)
	case a.json && !f.follow:
		return a.printJSON(report)
	}
	after := uint64(0)
	for _, attempt := range report.Attempts {
		if err := a.showAttempt(attempt); err != nil {
			return err
		}
		after = attempt.ID
	}
	for _, open := range report.Open {
		if err := a.showAttempt(open); err != nil {
			return err
		}
	}
	if !f.follow {
		return nil
	}
	return c.FollowNetwork(ctx, name, after, a.showAttempt)
}

// showAttempt prints one attempt on a line: time, decision, protocol, where, what, bytes, and the rule or the reason.
func (a *app) showAttempt(n api.NetworkAttempt) error {
	if a.json {
		return json.NewEncoder(a.Stdout).Encode(n)
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
	parts := []string{n.Time.UTC().Format("2006-01-02T15:04:05.000"), decision, n.Protocol, destination(n)}
	if n.Method != "" {
		parts = append(parts, n.Method, n.Path)
	}
	if n.Status != 0 {
		parts = append(parts, strconv.Itoa(n.Status))
	}
	if n.Sent+n.Received > 0 {
		parts = append(parts, fmt.Sprintf("%s up, %s down", sandbox.FormatBytes(n.Sent), sandbox.FormatBytes(n.Received)))
	}
	if len(n.Secrets) > 0 {
		parts = append(parts, "with "+strings.Join(n.Secrets, ", "))
	}
	if len(n.Misplaced) > 0 {
		parts = append(parts, "with only the placeholder of "+strings.Join(n.Misplaced, ", "))
	}
	line := printable(strings.Join(parts, " "))
	switch {
	case n.Reason != "":
		line += " (" + printable(n.Reason) + ")"
	case n.Rule != "":
		line += " (" + printable(n.Rule) + ")"
	}
	return line
}

// destination is where an attempt went: its name, its address where that is all, and its port.
func destination(n api.NetworkAttempt) string {
	host := n.Name
	if host == "" {
		host = n.Address
	}
	if n.Port == 0 {
		return host
	}
	return net.JoinHostPort(host, strconv.Itoa(int(n.Port)))
}

func (a *app) networkSummary(n *api.NetworkReport) error {
	rows := [][]string{{"HOST", "ALLOWED", "REFUSED", "SENT", "RECEIVED"}}
	row := func(name string, allowed, refused uint64, sent, received int64) {
		rows = append(rows, []string{printable(name), strconv.FormatUint(allowed, 10), strconv.FormatUint(refused, 10), sandbox.FormatBytes(sent),
			sandbox.FormatBytes(received)})
	}
	for _, h := range n.Hosts {
		row(h.Host, h.Allowed, h.Refused, h.Sent, h.Received)
	}
	row("all", n.Allowed, n.Refused, n.Sent, n.Received)
	if err := a.showTable(rows); err != nil {
		return err
	}
	for _, counts := range [][]api.NetworkCount{n.Methods, n.Statuses} {
		var parts []string
		for _, c := range counts {
			parts = append(parts, fmt.Sprintf("%s %d", printable(c.Of), c.Count))
		}
		if len(parts) > 0 {
			if _, err := fmt.Fprintln(a.Stdout, strings.Join(parts, ", ")); err != nil {
				return err
			}
		}
	}
	return nil
}
