package main

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/settings"
)

// flagColumn is the column of a flag's description. Lines have at most 100 columns.
const flagColumn = 31

type flagGroup struct {
	title string
	flags []string
}

// Flags that several commands have.
var (
	keptPackages = []string{"package-index", "package-host", "package-cache", "package-cache-size", "package-ttl",
		"package-share", "package-archive"}
	environmentNames = []string{"env", "env-file", "pass-env", "pass-secret"}
	isolationFlags   = []string{"backend", "image", "pull", "root", "network", "allow", "deny", "secret",
		"secret-header", "inspect", "allow-command", "allow-unenforced", "nested-filters", "terminals"}
	containerFlags = []string{"container-image", "container-runtime", "image-cache-size"}
)

var (
	limitsGroup      = flagGroup{"Limits", namesOfLimits("")}
	environmentGroup = flagGroup{"Environment", environmentNames}
	isolationGroup   = flagGroup{"Isolation", slices.Concat(isolationFlags, containerFlags)}
	packagesGroup    = flagGroup{"Packages", keptPackages}
	filesGroup       = flagGroup{"Files", []string{"workspace", "mount", "volume", "tmpfs"}}
	outputGroup      = flagGroup{"Output", []string{"json", "quiet", "verbose", "config"}}
)

// flagGroups are the headings of commands with many flags. Other commands have two. A command may lack flags of its
// groups.
var flagGroups = map[string][]flagGroup{
	"run": {
		{"Code", []string{"code", "lang", "interactive", "stdin", "checks", "check-allow", "check-deny"}},
		{"A living sandbox", []string{"in", "context", "server", "key-file"}},
		{"Files", []string{"file", "workspace", "workdir", "mount", "volume", "tmpfs", "out", "return", "overwrite",
			"strict-files"}},
		{"Packages", append([]string{"packages", "lock", "allow-build"}, keptPackages...)},
		limitsGroup, environmentGroup, isolationGroup,
		{"Output", append([]string{"dry-run"}, outputGroup.flags...)},
	},
	"repl": {
		{"Code", []string{"lang", "out"}},
		{"A living sandbox", []string{"in", "context", "server", "key-file"}},
		filesGroup, packagesGroup, limitsGroup, environmentGroup, isolationGroup, outputGroup,
	},
	"create": {
		{"Sandbox", []string{"name", "if-exists", "idle", "max-age", "metadata", "packages", "allow-build",
			"volume", "tmpfs"}},
		limitsGroup, environmentGroup, isolationGroup,
		{"Server", []string{"server", "key-file"}},
		outputGroup,
	},
	"mcp": {
		{"A living sandbox", []string{"in", "server", "key-file"}},
		filesGroup, packagesGroup, limitsGroup, environmentGroup, isolationGroup, outputGroup,
	},
	"serve": {
		{"Server", []string{"listen", "host", "domain", "tls-cert", "tls-key", "acme-domain",
			"acme-directory", "acme-ca", "acme-email", "acme-listen", "api-key-file",
			"drain-timeout", "no-local-socket", "check-config"}},
		{"Capacity", []string{"slots", "slots-per-key", "queue", "queue-per-key", "queue-timeout", "warm", "warm-image",
			"connections", "connections-per-key", "max-connections"}},
		{"Living sandboxes", []string{"state-dir", "private", "sandboxes", "owner-sandboxes", "max-file", "log-space"}},
		{"Volumes", []string{"volumes-per-key", "max-volume", "allow-volume-dir"}},
		{"Templates", []string{"templates"}},
		{"Packages", append([]string{"no-packages"}, keptPackages...)},
		{"Default limits of a request", namesOfLimits("")},
		{"Largest limits of a request", namesOfLimits("max-")},
		{"Checks", []string{"checks", "check-allow", "check-deny"}},
		{"Isolation", slices.Concat([]string{"backend", "allow-backend", "allow-image", "pull-images",
			"max-network", "network-allow", "allow-unenforced",
			"nested-filters", "terminals"}, containerFlags)},
		{"Log", []string{"log-format", "log-level", "access-log"}},
		outputGroup,
	},
}

func namesOfLimits(prefix string) []string {
	var names []string
	for _, l := range settings.LimitFlags {
		names = append(names, prefix+l.Flag)
	}
	return names
}

// printHelp prints the help of a command: purpose, usage, examples, and flags by heading.
func printHelp(cmd *cobra.Command, _ []string) {
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", cmp.Or(cmd.Long, cmd.Short))
	if !strings.Contains(cmd.Long, cmd.CommandPath()) { // otherwise Long shows the usage
		fmt.Fprintf(&b, "\nUsage: %s\n", usageOf(cmd))
	}
	for _, group := range cmd.Groups() {
		if group.ID == livingGroup || group.ID == storesGroup {
			printNames(&b, cmd, group)
		} else {
			printCommands(&b, cmd, group.ID, group.Title)
		}
	}
	if len(cmd.Groups()) == 0 {
		printCommands(&b, cmd, "", "Commands")
	}
	if cmd.Example != "" {
		fmt.Fprintf(&b, "\nExamples\n%s\n", cmd.Example)
	}
	if cmd.HasParent() {
		for _, group := range groupsOf(cmd) {
			printFlags(&b, cmd, group)
		}
	} else {
		b.WriteString("\n" + rootNotes + "\n")
	}
	fmt.Fprint(cmd.OutOrStdout(), b.String())
}

// usageOf returns the usage in one line. Cobra adds "[flags]" even to a usage that has [FLAGS].
func usageOf(cmd *cobra.Command) string {
	if usage, ok := strings.CutSuffix(cmd.UseLine(), " [flags]"); ok && strings.Contains(usage, "[FLAGS]") {
		return usage
	}
	return strings.Replace(cmd.UseLine(), "[flags]", "[FLAGS]", 1)
}

func printCommands(b *strings.Builder, cmd *cobra.Command, group, title string) {
	for _, c := range cmd.Commands() {
		if !c.IsAvailableCommand() || c.GroupID != group {
			continue
		}
		if title != "" {
			fmt.Fprintf(b, "\n%s\n", title)
			title = ""
		}
		fmt.Fprintf(b, "  %-11s %s\n", c.Name(), c.Short)
	}
}

// The groups of commands for living sandboxes, and for what runs use. The root's help shows only their names, to fit a
// screen.
const (
	livingGroup = "living"
	storesGroup = "stores"
	runGroup    = "run"
)

func printNames(b *strings.Builder, cmd *cobra.Command, group *cobra.Group) {
	fmt.Fprintf(b, "\n%s\n", group.Title)
	var names []string
	if group.ID == livingGroup {
		names = append(names, "run --in ")
	}
	for _, c := range cmd.Commands() {
		if c.GroupID == group.ID && c.IsAvailableCommand() {
			names = append(names, c.Name())
		}
	}
	fmt.Fprintf(b, "  %s\n", strings.Join(names, " "))
}

// valueNames replace pflag's names of values.
var valueNames = map[string]string{"int": "N", "duration": "DURATION"}

// groupsOf returns the flags of a command by heading. Flags without a heading go under the first.
func groupsOf(cmd *cobra.Command) []flagGroup {
	if groups := flagGroups[cmd.Name()]; groups != nil {
		return groups
	}
	var own []string
	cmd.LocalNonPersistentFlags().VisitAll(func(f *pflag.Flag) { own = append(own, f.Name) })
	return []flagGroup{{"Flags", own}, outputGroup}
}

func printFlags(b *strings.Builder, cmd *cobra.Command, group flagGroup) {
	for _, name := range group.flags {
		f := cmd.Flag(name)
		if f == nil || f.Hidden || f.Name == "help" {
			continue
		}
		if group.title != "" {
			fmt.Fprintf(b, "\n%s\n", group.title)
			group.title = ""
		}
		short := "    "
		if f.Shorthand != "" {
			short = "-" + f.Shorthand + ", "
		}
		value, usage := pflag.UnquoteUsage(f)
		name := strings.TrimSpace("--" + f.Name + " " + cmp.Or(valueNames[value], value))
		fmt.Fprintf(b, "%-*s %s\n", flagColumn-1, "  "+short+name, usage)
	}
}

// grouped puts commands under a heading of the root's help.
func grouped(root *cobra.Command, id, title string, commands ...*cobra.Command) {
	root.AddGroup(&cobra.Group{ID: id, Title: title})
	addTo(root, id, commands...)
}

func addTo(root *cobra.Command, id string, commands ...*cobra.Command) {
	for _, c := range commands {
		c.GroupID = id
	}
	root.AddCommand(slices.Clone(commands)...)
}
