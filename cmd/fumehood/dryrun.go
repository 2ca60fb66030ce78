package main

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type planJSON struct {
	Simulated       bool              `json:"simulated"`
	Backend         string            `json:"backend"`
	Language        string            `json:"language,omitempty"`
	Argv            []string          `json:"argv"`
	Dir             string            `json:"dir"`
	Env             []string          `json:"env"`
	Files           []string          `json:"files"`
	Workspace       string            `json:"workspace,omitempty"`
	Root            string            `json:"root"`
	Mounts          []string          `json:"mounts"`
	Limits          map[string]string `json:"limits"`
	Named           []string          `json:"named"`
	Network         string            `json:"network"`
	Commands        []string          `json:"commands"`
	AllowUnenforced []string          `json:"allow_unenforced"`
	Nested          bool              `json:"nested_filters"`
	Terminals       bool              `json:"terminals"`
	Unenforced      []string          `json:"unenforced"`        // limits that this host cannot enforce
	Problem         *api.Problem      `json:"problem,omitempty"` // why the run would be rejected
}

// dryRun prints the plan of a run and makes no sandbox. For a run that would be refused, it returns the same error.
func (a *app) dryRun(ctx context.Context, e *engine.Engine, run engine.OneShot) error {
	plan, err := e.Plan(ctx, run)
	if err != nil {
		return err
	}
	out := newPlanJSON(plan, run.Request.Files)
	if a.json {
		if err := a.printJSON(out); err != nil || plan.Refusal == nil {
			return err
		}
		return exitError(exitFailure)
	}
	rows := [][2]string{
		{"simulated", "true; nothing was run"},
		{"backend", out.Backend},
		{"language", out.Language},
		{"command", terminal.Quote(out.Argv...)},
		{"directory", out.Dir},
		{"files", strings.Join(out.Files, ", ")},
		{"workspace", out.Workspace},
		{"root", out.Root},
		{"mounts", strings.Join(out.Mounts, ", ")},
		{"network", out.Network},
		{"commands", strings.Join(out.Commands, ", ")},
		{"environment", terminal.Quote(out.Env...)},
		{"waived", strings.Join(out.AllowUnenforced, ", ")},
	}
	if out.Nested {
		rows = append(rows, [2]string{"filters", "the code may add its own; no limit counts their memory"})
	}
	if out.Terminals {
		rows = append(rows, [2]string{"terminals", "the code may create them; no limit of CPU counts their work"})
	}
	for _, name := range sandbox.LimitNames {
		how := "default"
		if plan.Spec.IsNamed(name) {
			how = "requested"
		}
		if slices.Contains(plan.Unenforced, name) {
			how += "; not enforced " + where(name, &plan.Spec)
		}
		rows = append(rows, [2]string{string(name), out.Limits[string(name)] + ", " + how})
	}
	for _, row := range rows {
		if row[1] != "" {
			fmt.Fprintf(a.Stdout, "%-12s %s\n", row[0], terminal.Visible(row[1]))
		}
	}
	return plan.Refusal
}

// where returns the place in which a limit is not enforced.
func where(name sandbox.LimitName, spec *sandbox.Spec) string {
	if spec.HostWritable() && (name == sandbox.LimitDisk || name == sandbox.LimitInodes) {
		return "in directories of this host"
	}
	return "on this host"
}

func newPlanJSON(p *engine.Plan, files []sandbox.File) planJSON {
	out := planJSON{
		Simulated: true, Backend: p.Backend, Language: p.Language, Argv: p.Argv, Dir: p.Dir, Env: maskSecrets(p.Env),
		Files: []string{}, Workspace: p.Spec.Workspace, Root: "the system directories of this host, read-only",
		Mounts: []string{}, Limits: map[string]string{}, Named: namesOf(p.Spec.Named),
		Network: string(p.Spec.Network.Mode), Commands: p.Spec.Commands, AllowUnenforced: append([]string{},
			p.Spec.AllowUnenforced...),
		Nested: p.Spec.NestedFilters, Terminals: p.Spec.Terminals, Unenforced: namesOf(p.Unenforced),
	}
	if p.Refusal != nil {
		problem := problemOf(p.Refusal)
		out.Problem = &problem
	}
	if p.Spec.Root.Dir != "" {
		out.Root = p.Spec.Root.Dir
	}
	if p.Spec.Root.Image != "" {
		out.Root = "the image " + p.Spec.Root.Image
	}
	for _, f := range files {
		out.Files = append(out.Files, f.Path)
	}
	for _, m := range p.Spec.Mounts {
		mode := "ro"
		if m.Writable {
			mode = "rw"
		}
		out.Mounts = append(out.Mounts, m.Source+":"+m.Target+":"+mode)
	}
	for _, name := range sandbox.LimitNames {
		out.Limits[string(name)] = sandbox.FormatLimit(name, p.Spec.Limits.Get(name))
	}
	return out
}

// maskSecrets hides the values of variables whose names look like secrets, because people share plans.
func maskSecrets(env []string) []string {
	out := make([]string, len(env))
	for i, kv := range env {
		name, _, _ := strings.Cut(kv, "=")
		out[i] = kv
		if looksSecret(name) {
			out[i] = name + "=..."
		}
	}
	return out
}
