package main

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/host/capacity"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type health struct {
	Ready      bool             `json:"ready"`
	Backend    string           `json:"backend"`           // the backend of the verdict and the languages
	Problem    *api.Problem     `json:"problem,omitempty"` // why not ready
	Unenforced []string         `json:"unenforced"`        // limits that are not enforced and were waived
	Backends   []backendHealth  `json:"backends"`
	Image      string           `json:"image,omitempty"` // in which the languages were tried
	Languages  []languageHealth `json:"languages"`
	Auto       string           `json:"auto"` // the backend that auto chooses; "" if none is usable

	why     error    // why not ready, or nil
	allowed []string // limits that the user waives

	Max     map[string]string `json:"max"` // by limit, the default of serve's --max-...
	Network ceilingHealth     `json:"network"`
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

	install string // the fix, for a language that many hosts lack
}

func (a *app) newDoctor() *cobra.Command {
	var backend string
	var root sandbox.Root
	var allowUnenforced []string
	var most ceilingFlags
	cmd := &cobra.Command{
		Use:   "doctor",
		Short: "Show the isolation that this host can enforce, and fixes",
		Long: `Doctor builds a sandbox and shows the state of each isolation layer, its basis, and the fix if it is
not enforced. Then it runs a small program in each language, and says whether this host is ready.

Exit code 0: the backend can make sandboxes with the default policy, except limits waived by
--allow-unenforced or the configuration; 1: it cannot.`,
		Example: "  fumehood doctor\n  fumehood doctor --json",
		Args:    cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ceiling, err := most.ceiling()
			if err != nil {
				return err
			}
			h, err := a.examine(cmd.Context(), backend, root, allowUnenforced)
			if err != nil {
				return err
			}
			h.Network = ceilingHealth{Mode: ceiling.Mode, Allow: ceiling.Allow}
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
	most.add(cmd) // from the configuration of serve
	for _, name := range []string{"max-network", "network-allow"} {
		_ = cmd.Flags().MarkHidden(name) // it exists
	}
	cmd.Flags().StringVar(&backend, "backend", "", "backend `NAME` to judge (default "+defaultBackend+")")
	completions(cmd, "backend", "native", "gvisor", "docker", "podman", "auto")
	cmd.Flags().StringVar(&root.Dir, "root", "", "`DIR` with the root file system (default that of this host)")
	cmd.Flags().StringVar(&root.Image, "image", "", "image or template `REF` whose languages are tried")
	cmd.MarkFlagsMutuallyExclusive("root", "image")
	return cmd
}

// examine reports the backends, and the languages of a root.
func (a *app) examine(ctx context.Context, backend string, root sandbox.Root, allowUnenforced []string) (h *health,
	err error) {
	a.containers.pull = pullNever
	e, err := a.openEngine(engine.Config{Default: backend, AllowUnenforced: allowUnenforced})
	if err != nil {
		return nil, err
	}
	defer func() { err = cmp.Or(err, e.Close()) }()
	// Languages work without a memory limit too.
	spec := sandbox.Spec{AllowUnenforced: []string{string(sandbox.LimitMemory), string(sandbox.LimitCPUs)}}
	if spec.Root = root; root.Dir != "" {
		if spec.Root.Dir, err = a.host().Dir("--root", root.Dir); err != nil {
			return nil, err
		}
	}
	h = &health{Image: root.Image, Unenforced: []string{}, Backends: []backendHealth{}, Languages: []languageHealth{},
		Max: map[string]string{}, allowed: allowUnenforced}
	most := settings.Maxima(capacity.Host(), engine.DefaultSlots())
	for _, name := range sandbox.LimitNames {
		h.Max[string(name)] = sandbox.FormatLimit(name, most.Get(name))
	}
	possible := h.examineBackends(e.Probe(ctx), backend)
	works := false
	for _, l := range e.Languages() {
		h.Languages = append(h.Languages, tryLanguage(ctx, e.Engine, l, spec, possible))
		works = works || h.Languages[len(h.Languages)-1].Works
	}
	switch {
	case h.Backend == "":
		h.why = e.ProbeDefault(ctx).Err
	case h.Ready && root.Dir != "" && !works: // a named root must be able to run something
		h.Ready, h.why = false, unsupported("--root", "no language works in this root file system", "")
	}
	if !h.Ready && h.why != nil {
		problem := problemOf(h.why)
		h.Problem = &problem
	}
	return h, ctx.Err()
}

// examineBackends records the backends, and the verdict on one of them. possible reports whether it can make sandboxes
// when limits are waived.
func (h *health) examineBackends(probed []engine.Probed, backend string) (possible bool) {
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
			h.Ready, h.why = p.Usable(), cmp.Or(p.Err, p.Refusal)
			possible = h.Ready || len(sandbox.UnenforcedOf(p.Refusal)) > 0
			h.Unenforced = append(h.Unenforced, namesOf(p.Without)...)
		}
		h.Backends = append(h.Backends, b)
	}
	return possible
}

// tryLanguage runs the language's probe in a new sandbox.
func tryLanguage(ctx context.Context, e *engine.Engine, l sandbox.Language, spec sandbox.Spec,
	possible bool) languageHealth {
	h := languageHealth{Name: l.Name, Title: l.Title}
	if !possible {
		h.Why = "cannot make a sandbox"
		return h
	}
	h.Program = programOf(ctx, e, l, spec)
	r, err := e.Run(ctx, engine.OneShot{Spec: spec, WithoutStart: true,
		Request: sandbox.Request{Language: l.Name, Code: []byte(l.Probe)}})
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

// programOf returns the path of the language's program in a sandbox, and its version; "" if unknown.
func programOf(ctx context.Context, e *engine.Engine, l sandbox.Language, spec sandbox.Spec) string {
	programs, version := l.Programs, []string{"--version"}
	if l.Compile != nil && l.Compile.Tool == "" {
		programs, version = l.Compile.Programs, l.Compile.Version
	}
	// Some write the version to stderr, others notes.
	const script = `p=$(command -v "$0") && {
			v=$("$0" "$@" 2>/dev/null | grep -m 1 .) || v=$("$0" "$@" 2>&1) || v=$("$0" -v 2>&1)
		} && printf '%s: ' "$p" && printf '%s\n' "$v" | grep -m 1 .`
	for _, program := range programs {
		command := append([]string{"/bin/sh", "-c", script, program}, version...)
		r, err := e.Run(ctx, engine.OneShot{Spec: spec, WithoutStart: true,
			Request: sandbox.Request{Command: command}})
		if err == nil && r.Status == sandbox.StatusSucceeded {
			return strings.TrimSpace(string(r.Stdout.Head))
		}
	}
	return ""
}

// aptInstall begins the fix of each language that is not installed.
const aptInstall = "apt install "

var stateColours = map[sandbox.WallState]terminal.Colour{
	sandbox.WallEnforced: terminal.Green, sandbox.WallPartial: terminal.Yellow, sandbox.WallMissing: terminal.Red}

func (a *app) printHealth(h *health) {
	for _, b := range h.Backends {
		a.printBackend(&b)
	}
	title := "languages"
	if h.Image != "" {
		title += " of " + h.Image
	}
	fmt.Fprintln(a.Stdout, title)
	var absent, packages []string
	for _, l := range h.Languages {
		switch {
		case l.Works:
			a.printFinding(terminal.Green, "works", l.Name, strings.TrimSpace(l.Title+"  "+l.Program), "")
		case l.install != "":
			absent, packages = append(absent, l.Name), append(packages, strings.TrimPrefix(l.install, aptInstall))
		default:
			a.printFinding(terminal.Red, "missing", l.Name, l.Why, l.Fix)
		}
	}
	if len(absent) > 0 {
		fix := aptInstall + strings.Join(packages, " ")
		if h.Image != "" { // the host's packages are of no use there
			fix = "build a template that has them: fumehood template build NAME --from " + h.Image
		}
		a.printFinding(terminal.Faint, "no", strings.Join(absent, ", "), "not installed", fix)
	}
	var most []string
	for _, l := range settings.LimitFlags {
		most = append(most, l.Flag+" "+h.Max[string(l.Name)])
	}
	fmt.Fprintf(a.Stdout, "serve\n  a request may ask for %s (--max-... changes it)\n", strings.Join(most, ", "))
	fmt.Fprintf(a.Stdout, "  a request may open %s (--max-network and --network-allow change it)\n", h.Network)
	if h.Auto != "" {
		fmt.Fprintf(a.Stdout, "--backend auto is %s here\n", h.Auto)
	}
	a.printVerdict(h)
}

// printVerdict prints whether this host is ready, and the fix. For limits that it cannot enforce, it prints the line of
// the configuration file that waives them.
func (a *app) printVerdict(h *health) {
	line := func(c terminal.Colour, text string) { fmt.Fprintln(a.Stdout, a.paint(a.Stdout, c, text)) }
	switch {
	case h.Ready && len(h.Unenforced) > 0:
		line(terminal.Yellow, "ready: "+h.Backend+" makes sandboxes; not enforced, as allowed: "+
			strings.Join(h.Unenforced, ", "))
		return
	case h.Ready:
		line(terminal.Green, "ready: "+h.Backend+" makes sandboxes with the default policy")
		return
	}
	line(terminal.Red, "not ready: "+terminal.OneLine(textOf(h.why)))
	fix, lacks := fixOf(h.why), sandbox.UnenforcedOf(h.why)
	if len(lacks) > 0 && a.settings.File != "" {
		fix = sandbox.FixOf(h.why) // without the flag of one run
	}
	if fix != "" {
		line(terminal.Plain, "fix: "+terminal.OneLine(fix))
	}
	if len(lacks) > 0 && a.settings.File != "" {
		waived, _ := json.Marshal(slices.Compact(slices.Sorted(slices.Values(append(namesOf(lacks), h.allowed...)))))
		line(terminal.Plain, "or waive the limit: write this line into "+a.settings.File)
		line(terminal.Plain, "  allow_unenforced = "+string(waived))
	}
}

func (a *app) printBackend(b *backendHealth) {
	if b.Error != "" {
		fmt.Fprintf(a.Stdout, "%s\n", b.Backend)
		a.printFinding(terminal.Red, "missing", "backend", strings.TrimPrefix(b.Error, b.Backend+": "), b.Fix)
		return
	}
	fmt.Fprintf(a.Stdout, "%s (%s kernel)\n", b.Backend, b.Kernel)
	for _, w := range b.Walls {
		a.printFinding(stateColours[w.State], string(w.State), w.Name, w.Detail, w.Fix)
	}
	for _, f := range b.Features {
		if !f.Has {
			a.printFinding(terminal.Faint, "no", string(f.Name), f.Detail, "")
		}
	}
}

func (a *app) printFinding(c terminal.Colour, state, name, detail, fix string) {
	state = a.paint(a.Stdout, c, fmt.Sprintf("%-8s", state))
	fmt.Fprintf(a.Stdout, "  %s  %-18s %s\n", state, name, terminal.OneLine(detail))
	if fix != "" {
		fmt.Fprintf(a.Stdout, "  %-8s  %-18s fix: %s\n", "", "", terminal.OneLine(fix))
	}
}
