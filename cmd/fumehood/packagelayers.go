package main

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/packages"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	digestWidth     = 12 // characters
	packagesInShort = 8  // of a layer
)

func (a *app) newDeps() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "deps",
		Short: "Show, lock and prune installed packages",
		Long: `Run --packages installs packages into layers, which runs share. When all layers exceed
--package-cache-size, the least recently used ones are removed. Living sandboxes keep the packages
of removed layers until they end: at most the same size again, which is not listed here.`,
		Args: cobra.NoArgs,
	}
	var all bool
	prune := a.onCache(&cobra.Command{
		Use: "prune", Short: "Remove the least recently used layers, or all unused ones", Args: cobra.NoArgs,
	}, func(cache *packages.Cache, f *packageFlags, _ []string) error {
		most := int64(f.size)
		if all {
			most = 0
		}
		return a.prune(cache, most)
	})
	prune.Flags().BoolVar(&all, "all", false, "remove all unused layers")
	cmd.AddCommand(
		a.onCache(&cobra.Command{Use: "ls", Short: "List the layers, the most recently used last", Args: cobra.NoArgs},
			func(cache *packages.Cache, _ *packageFlags, _ []string) error { return a.listLayers(cache) }),
		a.newDepsLock(),
		a.onCache(&cobra.Command{
			Use: "why NAME", Short: "Show the layers that have a package, and its requirers",
			Args: cobra.ExactArgs(1),
		}, func(cache *packages.Cache, _ *packageFlags, args []string) error {
			return a.explainPackage(cache, args[0])
		}),
		prune)
	return cmd
}

func (a *app) onCache(cmd *cobra.Command,
	do func(cache *packages.Cache, f *packageFlags, args []string) error) *cobra.Command {
	var f packageFlags
	f.add(cmd.Flags())
	cmd.RunE = func(_ *cobra.Command, args []string) error {
		config, err := a.packageConfig(&f)
		if err != nil {
			return err
		}
		if config.Dir == "" {
			return invalid("--package-cache", "the cache needs a home",
				"set HOME, or name a folder: --package-cache DIR")
		}
		cache, err := packages.OpenCache(config.Dir)
		if err != nil {
			return err
		}
		return do(cache, &f, args)
	}
	return cmd
}

func (a *app) listLayers(cache *packages.Cache) error {
	list, err := cache.List()
	if err != nil {
		return err
	}
	if a.json {
		return a.printJSON(layersJSON(list))
	}
	rows := [][]string{{"LAYER", "LANGUAGE", "SIZE", "MADE", "USED", "HITS", "PACKAGES"}}
	for _, l := range list {
		rows = append(rows, []string{l.Digest[:digestWidth], l.Language, sandbox.FormatBytes(l.Bytes), ago(l.Made),
			ago(l.Used), strconv.FormatInt(l.Hits, 10), inShort(l.Packages)})
	}
	return a.printTable(rows)
}

// layersJSON returns layers with their use, which their own files lack.
func layersJSON(list []packages.Layer) any {
	type layer struct {
		packages.Layer
		Hits int64     `json:"hits"`
		Used time.Time `json:"used"`
	}
	out := make([]layer, len(list))
	for i, l := range list {
		l.Requested, l.Packages = answer.List(l.Requested), answer.List(l.Packages)
		out[i] = layer{l, l.Hits, l.Used.UTC()}
	}
	return out
}

func inShort(list []sandbox.Package) string {
	var names []string
	for _, p := range list[:min(len(list), packagesInShort)] {
		names = append(names, p.Name+" "+p.Version)
	}
	if more := len(list) - packagesInShort; more > 0 {
		names = append(names, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(names, ", ")
}

func (a *app) prune(cache *packages.Cache, most int64) error {
	removed, err := cache.Prune(most)
	if err != nil {
		return err
	}
	var bytes int64
	for _, l := range removed {
		bytes += l.Bytes
	}
	if a.json {
		return a.printJSON(map[string]any{"removed": layersJSON(removed), "bytes": bytes})
	}
	_, err = fmt.Fprintf(a.Stdout, "removed %d layers, %s\n", len(removed), sandbox.FormatBytes(bytes))
	return err
}

// explainPackage prints the layers that have a package, and the packages or the run that required it.
func (a *app) explainPackage(cache *packages.Cache, name string) error {
	reasons, err := cache.Why(name, lang.All())
	if err != nil {
		return err
	}
	if len(reasons) == 0 {
		return &sandbox.Error{Kind: sandbox.NotFound, Op: "deps why",
			Msg: fmt.Sprintf("no layer has the package %.80q", name), Fix: "fumehood deps ls lists the layers"}
	}
	type reason struct {
		Layer      string   `json:"layer"`
		Version    string   `json:"version"`
		Requested  bool     `json:"requested"` // by a run
		RequiredBy []string `json:"required_by"`
	}
	var list []reason
	rows := [][]string{{"LAYER", "VERSION", "REQUIRED BY"}}
	for _, r := range reasons {
		list = append(list, reason{r.Layer.Digest, r.Version, r.Requested, answer.List(r.By)})
		by := r.By
		if r.Requested {
			by = append([]string{"a run"}, by...)
		}
		rows = append(rows, []string{r.Layer.Digest[:digestWidth], r.Version, strings.Join(by, ", ")})
	}
	if a.json {
		return a.printJSON(list)
	}
	return a.printTable(rows)
}

func (a *app) newDepsLock() *cobra.Command {
	var f sandboxFlags
	var s source
	cmd := &cobra.Command{
		Use:   "lock [FLAGS] FILE",
		Short: "Print the exact packages that a file needs, for run --lock",
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

func (a *app) printLock(ctx context.Context, run engine.OneShot, f *sandboxFlags) error {
	return a.withEngine(engine.Config{Slots: 1, Queue: -1}, &f.packageFlags, func(e *openedEngine) error {
		out := a.newOutput()
		run.Request.Progress = out.progress
		supply, err := e.Supply(ctx, run)
		out.close()
		if err != nil {
			return err
		}
		if supply == nil {
			return unsupported("packages", "packages are not supported for this language", "run the file without them")
		}
		defer supply.Release()
		if a.json {
			return a.printJSON(map[string]any{"lock": supply.Lock, "packages": answer.List(supply.Packages),
				"missing": answer.List(supply.Missing)})
		}
		for _, name := range supply.Missing {
			a.warn("the index has no package for the import of %s", terminal.VisibleName(name))
		}
		_, err = fmt.Fprint(terminal.Sanitize(a.Stdout), supply.Lock)
		return err
	})
}
