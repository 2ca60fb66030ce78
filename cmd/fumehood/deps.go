package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/packages"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newDeps() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deps",
		Short: "Show, lock and prune installed packages",
		Long: `What run --packages installs is kept in layers, which runs share. The least recently used ones go
when all are larger than --package-cache-size. Living sandboxes keep what they have of them until
they are removed: as much again at most, which is not listed here.`,
		Args: cobra.NoArgs,
	}
	cmd.AddCommand(a.newDepsLs(), a.newDepsLock(), a.newDepsWhy(), a.newDepsPrune())
	return cmd
}

// layers opens the cache that the flags name.
func (a *app) layers(f *packageFlags) (*packages.Cache, error) {
	config, err := a.packageConfig(f)
	if err != nil {
		return nil, err
	}
	if config.Dir == "" {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "--package-cache", Msg: "there is no home for a cache", Fix: "set HOME, or name a folder: --package-cache DIR"}
	}
	return packages.OpenCache(config.Dir)
}

func (a *app) newDepsLs() *cobra.Command {
	var f packageFlags
	cmd := &cobra.Command{
		Use: "ls", Short: "List the layers, the most recently used last", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cache, err := a.layers(&f)
			if err != nil {
				return err
			}
			list, err := cache.List()
			if err != nil {
				return err
			}
			if a.json {
				return a.printJSON(shownLayers(list))
			}
			rows := [][]string{{"LAYER", "LANGUAGE", "SIZE", "MADE", "USED", "HITS", "PACKAGES"}}
			for _, l := range list {
				rows = append(rows, []string{l.Digest[:shownDigest], l.Language, sandbox.FormatBytes(l.Bytes), coarse(time.Since(l.Made)) + " ago", coarse(time.Since(l.Used)) + " ago",
					strconv.FormatInt(l.Hits, 10), shortly(l.Packages)})
			}
			return a.showTable(rows)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// shownLayer is a layer in JSON: what its own file says, and its use.
type shownLayer struct {
	packages.Layer
	Hits int64     `json:"hits"`
	Used time.Time `json:"used"`
}

func shownLayers(list []packages.Layer) []shownLayer {
	shown := make([]shownLayer, len(list))
	for i, l := range list {
		l.Asked, l.Packages = answer.List(l.Asked), answer.List(l.Packages)
		shown[i] = shownLayer{l, l.Hits, l.Used.UTC()}
	}
	return shown
}

const shownDigest = 12 // characters

// shortly names packages on one line.
func shortly(list []sandbox.Package) string {
	const most = 8
	var names []string
	for i, p := range list {
		if i == most {
			names = append(names, fmt.Sprintf("and %d more", len(list)-most))
			break
		}
		names = append(names, p.Name+" "+p.Version)
	}
	return strings.Join(names, ", ")
}

func (a *app) newDepsPrune() *cobra.Command {
	var f packageFlags
	var all bool
	cmd := &cobra.Command{
		Use: "prune", Short: "Remove the least recently used layers, or all that are not in use", Args: cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			cache, err := a.layers(&f)
			if err != nil {
				return err
			}
			most := int64(f.size)
			if all {
				most = 0
			}
			removed, err := cache.Prune(most)
			if err != nil {
				return err
			}
			var bytes int64
			for _, l := range removed {
				bytes += l.Bytes
			}
			if a.json {
				return a.printJSON(map[string]any{"removed": shownLayers(removed), "bytes": bytes})
			}
			_, err = fmt.Fprintf(a.Stdout, "removed %d layers, %s\n", len(removed), sandbox.FormatBytes(bytes))
			return err
		},
	}
	cmd.Flags().BoolVar(&all, "all", false, "remove all layers that are not in use")
	f.add(cmd.Flags())
	return cmd
}

func (a *app) newDepsWhy() *cobra.Command {
	var f packageFlags
	cmd := &cobra.Command{
		Use: "why NAME", Short: "Show which layers have a package, and what required it", Args: cobra.ExactArgs(1),
		RunE: func(_ *cobra.Command, args []string) error {
			cache, err := a.layers(&f)
			if err != nil {
				return err
			}
			reasons, err := cache.Why(args[0], lang.All())
			if err != nil {
				return err
			}
			if len(reasons) == 0 {
				return &sandbox.Error{Kind: sandbox.NotFound, Op: "deps why", Msg: fmt.Sprintf("no layer has the package %.80q", args[0]), Fix: "fumehood deps ls lists what there is"}
			}
			if a.json {
				return a.printJSON(shownReasons(reasons))
			}
			rows := [][]string{{"LAYER", "VERSION", "REQUIRED BY"}}
			for _, r := range reasons {
				by := r.By
				if r.Asked {
					by = append([]string{"a run"}, by...)
				}
				rows = append(rows, []string{r.Layer.Digest[:shownDigest], r.Version, strings.Join(by, ", ")})
			}
			return a.showTable(rows)
		},
	}
	f.add(cmd.Flags())
	return cmd
}

// shownReason is a reason in JSON.
type shownReason struct {
	Layer      string   `json:"layer"`
	Version    string   `json:"version"`
	Asked      bool     `json:"asked"` // a run asked for it
	RequiredBy []string `json:"required_by"`
}

func shownReasons(reasons []packages.Reason) []shownReason {
	shown := make([]shownReason, len(reasons))
	for i, r := range reasons {
		shown[i] = shownReason{r.Layer.Digest, r.Version, r.Asked, answer.List(r.By)}
	}
	return shown
}

func (a *app) newDepsLock() *cobra.Command {
	var f sandboxFlags
	var s source
	cmd := &cobra.Command{
		Use:   "lock [FLAGS] FILE",
		Short: "Print exactly what a file needs, for run --lock",
		Example: `  fumehood deps lock plot.py > plot.lock
  fumehood run --lock plot.lock plot.py`,
		Args: cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(f.names) == 0 && f.lock == "" {
				f.names = []string{sandbox.PackagesAuto}
			}
			run, err := a.runOf(cmd.Context(), s, &f, args)
			if err != nil {
				return err
			}
			return a.printLock(cmd.Context(), run, &f)
		},
	}
	cmd.Flags().StringVarP(&s.language, "lang", "l", "", "`LANGUAGE` of the code (default by the extension of FILE)")
	f.add(cmd)
	return cmd
}

func (a *app) printLock(ctx context.Context, run engine.Run, f *sandboxFlags) (err error) {
	packager, err := a.packager(&f.packageFlags)
	if err != nil {
		return err
	}
	e, err := a.openEngine(engine.Config{Slots: 1, Queue: -1, Packages: packager})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, e.Close()) }()
	shown := a.newShow()
	run.Request.Progress = shown.progress
	supply, err := e.Supply(ctx, run)
	shown.end()
	if err == nil && supply == nil {
		err = &sandbox.Error{Kind: sandbox.Unsupported, Op: "packages", Msg: "there are no packages to install for this language", Fix: "run the file as it is"}
	}
	if err != nil {
		return err
	}
	defer supply.Release()
	if a.json {
		return a.printJSON(map[string]any{"lock": supply.Lock, "packages": answer.List(supply.Packages), "missing": answer.List(supply.Missing)})
	}
	for _, name := range supply.Missing {
		a.warn("the index has no package for the import of %s", visibleName(name))
	}
	_, err = fmt.Fprint(a.Stdout, supply.Lock)
	return err
}
