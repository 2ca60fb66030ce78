package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/attack"
	"github.com/fumehood-dev/fumehood/internal/backend"
	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

type verifyFlags struct {
	backend string
	image   string
	only    []string
	report  string
	list    bool
}

type verification struct {
	Version       string          `json:"version"`
	Host          string          `json:"host"` // its system, kernel and user
	Began         time.Time       `json:"began"`
	TookMS        int64           `json:"took_ms"`
	Posture       sandbox.Posture `json:"posture"`
	Unenforced    []string        `json:"unenforced"` // limits that this host cannot enforce
	Corpus        int             `json:"corpus"`     // all attacks
	Selected      int             `json:"selected"`   // all, or those of --only
	Blocked       int             `json:"blocked"`
	NotBlocked    int             `json:"not_blocked"`
	NotApplicable int             `json:"not_applicable"`
	Unclear       int             `json:"unclear"`
	Interrupted   bool            `json:"interrupted"`
	Attacks       []attackResult  `json:"attacks"`
}

// attackResult is an attack, and its verdict once it was made.
type attackResult struct {
	*attack.Attack
	attack.Verdict
	TookMS int64 `json:"took_ms,omitempty"`
}

func (a *app) newVerify() *cobra.Command {
	f := &verifyFlags{}
	cmd := &cobra.Command{
		Use:   "verify",
		Short: "Attack sandboxes on this host and show which attacks they block",
		Long: `Verify makes the attacks of the corpus one after another, each in a fresh sandbox, and reports which
were blocked. The verdict comes mostly from the host: from planted files, listeners and memory, from
the kernel's view of the sandbox, and from the remains of the attack. Verify removes everything that
it planted; after a kill, the next verify does. No attack runs outside of a sandbox, and no sandbox
is weakened. It takes some minutes.

An attack that cannot be made or observed here is "not applicable", and its line says why.

Exit codes: 0 all applicable attacks were blocked; 1 one was not; 125 the outcome of one is unclear,
or verify failed; 130 canceled.`,
		Example: `  fumehood verify --backend native
  fumehood verify --backend gvisor --report gvisor.md
  fumehood verify --backend docker --container-image python:3.12-slim
  fumehood verify --only F01,N04 --json
  fumehood verify --list`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			corpus, err := attack.Corpus()
			if err != nil {
				return err
			}
			selected, err := selectAttacks(corpus, f.only)
			if err != nil {
				return err
			}
			if f.list {
				return a.listAttacks(selected)
			}
			return a.verify(cmd.Context(), f, selected, len(corpus))
		},
	}
	flags := cmd.Flags()
	flags.StringVar(&f.backend, "backend", "", "backend `NAME` to attack (default "+defaultBackend+")")
	flags.StringVar(&f.image, "image", "", "attack sandboxes on this `IMAGE` (default the backend's root)")
	flags.StringSliceVar(&f.only, "only", nil, "make only the attacks with these `ID`s (repeatable)")
	flags.StringVar(&f.report, "report", "", "write a report in Markdown into `FILE`")
	flags.BoolVar(&f.list, "list", false, "list the attacks and exit")
	completions(cmd, "backend", "native", "gvisor", "docker", "podman")
	return cmd
}

// selectAttacks returns the attacks with these ids, or all without ids.
func selectAttacks(corpus []*attack.Attack, only []string) ([]*attack.Attack, error) {
	if len(only) == 0 {
		return corpus, nil
	}
	var selected []*attack.Attack
	var ids []string
	for _, at := range corpus {
		ids = append(ids, at.ID)
	}
	for _, id := range only {
		i := slices.Index(ids, strings.ToUpper(strings.TrimSpace(id)))
		if i < 0 {
			e := invalid("--only", fmt.Sprintf("there is no attack %.20q", id), "fumehood verify --list")
			if near := nearest.Name(strings.ToUpper(id), ids); near != "" {
				e.Fix = "did you mean " + near + "?"
			}
			return nil, e
		}
		if !slices.Contains(selected, corpus[i]) {
			selected = append(selected, corpus[i])
		}
	}
	return selected, nil
}

func (a *app) listAttacks(corpus []*attack.Attack) error {
	list := []attackResult{}
	for _, at := range corpus {
		list = append(list, attackResult{Attack: at})
	}
	if a.json {
		return a.printJSON(list)
	}
	for _, at := range list {
		if _, err := fmt.Fprintf(a.Stdout, "%s  %-6s  %s: %s\n", at.ID, at.Class, at.Category, at.Title); err != nil {
			return err
		}
	}
	return nil
}

func (a *app) verify(ctx context.Context, f *verifyFlags, selected []*attack.Attack, corpus int) (err error) {
	backends, err := a.openBackends()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, backends.Close()) }()
	b, err := chooseBackend(backends, f.backend)
	if err != nil {
		return err
	}
	report, err := a.openReport(f.report)
	if err != nil {
		return err
	}
	defer report.Close() // after an error
	a.recover(ctx, backends)
	v := &verification{Version: versionOf(), Host: hostInWords(), Began: time.Now().UTC(), Corpus: corpus,
		Selected: len(selected), Unenforced: []string{}, Attacks: []attackResult{}}
	if v.Posture, err = b.Probe(ctx); err != nil {
		return err
	}
	if err := a.makeAttacks(ctx, v, b, f.image, selected); err != nil {
		return err
	}
	v.TookMS = time.Since(v.Began).Milliseconds()
	if err := writeReport(report, v.markdown()); err != nil {
		return err
	}
	if err := a.printVerification(v); err != nil {
		return err
	}
	switch {
	case v.NotBlocked > 0:
		return exitError(exitNotBlocked)
	case v.Interrupted:
		return context.Cause(ctx)
	case v.Unclear > 0 || v.Blocked == 0:
		return exitError(exitFailure)
	}
	return nil
}

// openReport opens the file of --report before the attacks, so that a wrong path does not waste minutes. It returns nil
// without --report.
func (a *app) openReport(path string) (f *os.File, err error) {
	if path == "" {
		return nil, nil
	}
	if path, err = a.host().Resolve(path); err == nil {
		f, err = hostfiles.OpenResolved(path, os.O_WRONLY|os.O_CREATE, 0o644)
	}
	if err != nil {
		return nil, hostfiles.Error("--report", err)
	}
	return f, nil
}

func writeReport(f *os.File, text []byte) error {
	if f == nil {
		return nil
	}
	err := f.Truncate(0)
	if err == nil || errors.Is(err, syscall.EINVAL) { // a pipe or a device
		_, err = f.Write(text)
	}
	if err = errors.Join(err, f.Close()); err != nil {
		return hostfiles.Error("--report", err)
	}
	return nil
}

// chooseBackend returns the backend of that name, or the first, which is the default.
func chooseBackend(backends *backend.Set, name string) (sandbox.Backend, error) {
	var names []string
	for _, b := range backends.Backends {
		if b.Name() == name || name == "" {
			return b, nil
		}
		names = append(names, b.Name())
	}
	return nil, sandbox.Invalidf("--backend", "%.40q is not one of %s", name, strings.Join(names, ", "))
}

// makeAttacks makes the attacks one at a time. The first interrupt ends the current one and removes all planted files.
func (a *app) makeAttacks(ctx context.Context, v *verification, b sandbox.Backend, image string,
	selected []*attack.Attack) (err error) {
	canaries, err := attack.Plant()
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, canaries.Close()) }()
	arena, err := attack.Open(ctx, attack.Options{Backend: b, Image: image, Canaries: canaries,
		Folders: []string{a.env().RunDir()}, Alone: true})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, arena.Close()) }()
	v.Unenforced = append(v.Unenforced, arena.Unenforced()...)
	a.announce(v)
	for i, at := range selected {
		done := a.showProgress(i, len(selected), at)
		verdict := arena.Try(ctx, at)
		done()
		v.Interrupted = ctx.Err() != nil
		if v.Interrupted && verdict.Outcome != attack.NotContained {
			return nil
		}
		result := attackResult{at, verdict, verdict.Took.Milliseconds()}
		v.Attacks = append(v.Attacks, result)
		v.count(verdict.Outcome)
		a.printAttack(i, len(selected), &result)
		if v.Interrupted {
			return nil
		}
	}
	return nil
}

func (v *verification) count(o attack.Outcome) {
	switch o {
	case attack.Contained:
		v.Blocked++
	case attack.NotContained:
		v.NotBlocked++
	case attack.NotApplicable:
		v.NotApplicable++
	case attack.Unclear:
		v.Unclear++
	}
}
