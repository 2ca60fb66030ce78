package main

import (
	"cmp"
	"context"
	"fmt"
	"strings"

	"github.com/fumehood-dev/fumehood/api"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/host/capacity"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// health is doctor's report.
type health struct {
	Ready      bool             `json:"ready"`
	Backend    string           `json:"backend"`           // the backend of the verdict and the languages
	Problem    *api.Problem     `json:"problem,omitempty"` // why not ready
	Unenforced []string         `json:"unenforced"`        // limits that are not enforced and were waived
	Backends   []backendHealth  `json:"backends"`
	Languages  []languageHealth `json:"languages"`
	Auto       string           `json:"auto"` // the backend that auto chooses; "" if none is usable

	why error // why not ready, or nil

	Max map[string]string `json:"max"` // by limit, the default of serve's --max-...
}

type backendHealth struct {
	sandbox.Posture
	Features []sandbox.Feature `json:"features"`
	Error    string            `json:"error,omitempty"`
	Fix      string            `json:"fix,omitempty"`
}

type languageHealth struct {
	Name    string `json:"name"`
	Title   string `json:"title"`
	Program string `json:"program,omitempty"` // its path in the sandbox, and its version
	Works   bool   `json:"works"`
	Why     string `json:"why,omitempty"`
	Fix     string `json:"fix,omitempty"`

	install string // how, where it is one that many hosts do without
}

func (a *app) newDoctor() *cobra.Command {
	var backend, root string
	var allowUnenforced []string
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show which isolation this host can enforce, and the fix for what it cannot",
		Long: `Doctor builds a sandbox and shows the state of each isolation layer, its basis, and the fix if it is
not enforced. Then it runs a small program in each language.

Exit code 0: the backend can make sandboxes with the default policy, except limits waived by
--allow-unenforced or the configuration; 1: it cannot.`,
		Example: "  fumehood doctor\n  fumehood doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			a.containers.keepOut = true // a diagnosis fetches nothing
			h, err := a.examine(cmd.Context(), backend, root, allowUnenforced)
			if err != nil {
				return err
			}
			if a.json {
				err = a.printJSON(h)
			} else {
				a.printHealth(h)
			}
			if err == nil && !h.Ready {
				return exitError(exitNotReady)
			}
			return err
		},
	}
	allowFlag(cmd, &allowUnenforced, "ready also where limit `NAME` is not enforced (repeatable)")
	cmd.Flags().StringVar(&backend, "backend", "", "backend `NAME` to judge (default "+defaultBackend+")")
	completions(cmd, "backend", "native", "gvisor", "docker", "podman", "auto")
	cmd.Flags().StringVar(&root, "root", "", "`DIR` with the root file system (default that of this host)")
	return cmd
}

func (a *app) examine(ctx context.Context, backend, root string, allowUnenforced []string) (h *health, err error) {
	a.containers.keepOut = true // a diagnosis fetches nothing
	e, err := a.openEngine(engine.Config{Default: backend, AllowUnenforced: allowUnenforced})
	if err != nil {
		return nil, err
	}
	defer func() {
		if closeErr := e.Close(); err == nil {
			err = closeErr
		}
	}()
	// Languages work without a memory limit too.
	spec := sandbox.Spec{AllowUnenforced: []string{string(sandbox.LimitMemory), string(sandbox.LimitCPUs)}}
	if root != "" {
		if spec.Root.Dir, err = a.existingDir("--root", root); err != nil {
			return nil, err
		}
	}
	h = &health{Unenforced: []string{}, Backends: []backendHealth{}, Languages: []languageHealth{}, Max: map[string]string{}}
	most := maxima(capacity.Host(), engine.DefaultSlots())
	for _, name := range sandbox.LimitNames {
		h.Max[string(name)] = sandbox.FormatLimit(name, most.Get(name))
	}
	var why error // not ready
	possible := false
	probed := e.Probe(ctx)
	h.Auto, _ = engine.Strongest(probed)
	if h.Backend = cmp.Or(backend, probed[0].Backend); h.Backend == engine.Auto {
		h.Backend = h.Auto
	}
	for _, p := range probed {
		b := backendHealth{Posture: p.Posture, Features: p.Features}
		b.Backend = p.Backend
		if p.Err != nil {
			b.Error, b.Fix = textOf(p.Err), fixOf(p.Err)
		}
		if p.Backend == h.Backend {
			h.Ready, why = p.Usable(), cmp.Or(p.Err, p.Refusal)
			possible = h.Ready || len(sandbox.UnenforcedOf(p.Refusal)) > 0 // languages work without those limits
			h.Unenforced = append(h.Unenforced, namesOf(p.Without)...)
		}
		h.Backends = append(h.Backends, b)
	}
	works := false
	for _, l := range e.Languages() {
		h.Languages = append(h.Languages, tryLanguage(ctx, e.Engine, l, spec, possible))
		works = works || h.Languages[len(h.Languages)-1].Works
	}
	switch {
	case h.Backend == "":
		why = e.ProbeDefault(ctx).Err
	case h.Ready && root != "" && !works: // a named root is meant to run something
		h.Ready, why = false, &sandbox.Error{Kind: sandbox.Unsupported, Op: "--root", Msg: "no language works in this root file system"}
	}
	if !h.Ready && why != nil {
		problem := problemOf(why)
		h.Problem, h.why = &problem, why
	}
	return h, ctx.Err()
}

// tryLanguage runs the language's probe in a sandbox of its own.
func tryLanguage(ctx context.Context, e *engine.Engine, l sandbox.Language, spec sandbox.Spec, possible bool) languageHealth {
	h := languageHealth{Name: l.Name, Title: l.Title}
	if !possible {
		h.Why = "cannot make a sandbox"
		return h
	}
	h.Program = programOf(ctx, e, l, spec)
	r, err := e.Run(ctx, engine.Run{Spec: spec, Request: sandbox.Request{Language: l.Name, Code: []byte(l.Probe)}})
	switch {
	case err != nil:
		h.Why, h.Fix = textOf(err), fixOf(err)
		if sandbox.KindOf(err) == sandbox.Unsupported && l.Driver == nil {
			h.install = l.Missing.Fix
		}
	case r.Status != sandbox.StatusSucceeded || string(r.Stdout.Head) != "42\n":
		h.Why = fmt.Sprintf("a small program ended as %s: %.200s", r.Status, r.Stderr.Head)
	default:
		h.Works = true
	}
	return h
}

// programOf returns the language's program in a sandbox, which may differ from that on the user's PATH, and its version; "" if unknown.
func programOf(ctx context.Context, e *engine.Engine, l sandbox.Language, spec sandbox.Spec) string {
	programs, asks := l.Programs, []string{"--version"}
	if l.Compile != nil && l.Compile.Tool == "" {
		programs, asks = l.Compile.Programs, l.Compile.Version
	}
	const script = `p=$(command -v "$0") && { v=$("$0" "$@" 2>&1) || v=$("$0" -v 2>&1); } && printf '%s: ' "$p" && printf '%s\n' "$v" | grep -m 1 .`
	for _, program := range programs {
		command := append([]string{"/bin/sh", "-c", script, program}, asks...)
		r, err := e.Run(ctx, engine.Run{Spec: spec, Request: sandbox.Request{Command: command}})
		if err == nil && r.Status == sandbox.StatusSucceeded {
			return strings.TrimSpace(string(r.Stdout.Head))
		}
	}
	return ""
}

// aptInstall begins the fix of each language that is not installed.
const aptInstall = "apt install "

var stateColours = map[sandbox.WallState]colour{sandbox.WallEnforced: green, sandbox.WallPartial: yellow, sandbox.WallMissing: red}

func (a *app) printHealth(h *health) {
	for _, b := range h.Backends {
		a.printBackend(&b)
	}
	fmt.Fprintln(a.Stdout, "languages")
	var absent, packages []string
	for _, l := range h.Languages {
		switch {
		case l.Works:
			a.printFinding(green, "works", l.Name, strings.TrimSpace(l.Title+"  "+l.Program), "")
		case l.install != "":
			absent, packages = append(absent, l.Name), append(packages, strings.TrimPrefix(l.install, aptInstall))
		default:
			a.printFinding(red, "missing", l.Name, l.Why, l.Fix)
		}
	}
	if len(absent) > 0 {
		a.printFinding(faint, "no", strings.Join(absent, ", "), "not installed", aptInstall+strings.Join(packages, " "))
	}
	var most []string
	for _, l := range limitFlags {
		most = append(most, l.flag+" "+h.Max[string(l.name)])
	}
	fmt.Fprintf(a.Stdout, "serve\n  a request may ask for %s (--max-... changes it)\n", strings.Join(most, ", "))
	if h.Auto != "" {
		fmt.Fprintf(a.Stdout, "--backend auto is %s here\n", h.Auto)
	}
	switch {
	case h.Ready && len(h.Unenforced) > 0:
		fmt.Fprintln(a.Stdout, a.paint(a.Stdout, yellow, "ready: "+h.Backend+" makes sandboxes; not enforced, as allowed: "+strings.Join(h.Unenforced, ", ")))
	case h.Ready:
		fmt.Fprintln(a.Stdout, a.paint(a.Stdout, green, "ready: "+h.Backend+" makes sandboxes with the default policy"))
	default:
		fmt.Fprintln(a.Stdout, a.paint(a.Stdout, red, "not ready: "+oneLine(textOf(h.why))))
		if fix := fixOf(h.why); fix != "" {
			fmt.Fprintf(a.Stdout, "fix: %s\n", oneLine(fix))
		}
	}
}

// printBackend prints the isolation layers and missing features of a backend, or why it is not usable.
func (a *app) printBackend(b *backendHealth) {
	if b.Error != "" {
		fmt.Fprintf(a.Stdout, "%s\n", b.Backend)
		a.printFinding(red, "missing", "backend", strings.TrimPrefix(b.Error, b.Backend+": "), b.Fix)
		return
	}
	fmt.Fprintf(a.Stdout, "%s (%s kernel)\n", b.Backend, b.Kernel)
	for _, w := range b.Walls {
		a.printFinding(stateColours[w.State], string(w.State), w.Name, w.Detail, w.Fix)
	}
	for _, f := range b.Features {
		if !f.Has {
			a.printFinding(faint, "no", string(f.Name), f.Detail, "")
		}
	}
}

// printFinding prints a line of the report, and the fix on a second one.
func (a *app) printFinding(c colour, state, name, detail, fix string) {
	fmt.Fprintf(a.Stdout, "  %s  %-18s %s\n", a.paint(a.Stdout, c, fmt.Sprintf("%-8s", state)), name, oneLine(detail))
	if fix != "" {
		fmt.Fprintf(a.Stdout, "  %-8s  %-18s fix: %s\n", "", "", oneLine(fix))
	}
}
