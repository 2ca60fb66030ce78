// Bundle writes the scripts of the dashboard, compressed, to internal/dashboard/dist. The repository keeps them, so
// that a build of Fumehood needs neither npm nor a network.
//
//	bundle             the pages, from dashboard/src; needs only Go
//	bundle --vendor    also the libraries, from dashboard/vendor and the packages in dashboard/node_modules
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

const (
	sources = "dashboard"
	dist    = "internal/dashboard/dist"
)

func main() {
	if err := bundle("", slices.Contains(os.Args[1:], "--vendor")); err != nil {
		fmt.Fprintln(os.Stderr, "bundle:", err)
		os.Exit(1)
	}
}

// bundle writes the scripts of the repository at root.
func bundle(root string, vendor bool) error {
	files, err := pages(root)
	if err == nil && vendor {
		var more map[string][]byte
		if more, err = libraries(root); err == nil {
			for name, text := range more {
				files[name] = text
			}
		}
	}
	if err != nil {
		return err
	}
	for name, text := range files {
		if path.Ext(name) != ".txt" {
			name += ".gz"
			if text, err = compress(text); err != nil {
				return err
			}
		}
		if err := os.WriteFile(filepath.Join(root, dist, name), text, 0o644); err != nil {
			return err
		}
	}
	return nil
}

// compress returns text compressed as the server sends it (RFC 1952).
func compress(text []byte) ([]byte, error) {
	var out bytes.Buffer
	w, err := gzip.NewWriterLevel(&out, gzip.BestCompression)
	if err == nil {
		_, err = w.Write(text)
		err = errors.Join(err, w.Close())
	}
	return out.Bytes(), err
}

// pages returns the scripts of the pages, by name. They import the libraries as files beside them.
func pages(root string) (map[string][]byte, error) {
	external := func(file func(path string) string) func(api.OnResolveArgs) (api.OnResolveResult, error) {
		return func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			return api.OnResolveResult{Path: "./" + file(a.Path) + ".js", External: true}, nil
		}
	}
	return build(root, []string{"src/app.tsx", "src/terminal.ts", "src/frame.ts"}, []api.Plugin{{Name: "libraries",
		Setup: func(b api.PluginBuild) {
			preact := func(string) string { return "preact" }
			b.OnResolve(api.OnResolveOptions{Filter: `^preact(/|$)`}, external(preact))
			b.OnResolve(api.OnResolveOptions{Filter: `/vendor/`}, external(path.Base))
		}}})
}

// libraries returns the libraries and their licenses, by name.
func libraries(root string) (map[string][]byte, error) {
	entries, err := filepath.Glob(filepath.Join(root, sources, "vendor", "*.ts"))
	if err != nil || len(entries) == 0 {
		return nil, errors.Join(err, errors.New("dashboard/vendor: no files"))
	}
	for i := range entries {
		entries[i] = "vendor/" + filepath.Base(entries[i])
	}
	files, err := build(root, entries, nil)
	if err != nil {
		return nil, err
	}
	files["licenses.txt"], err = licenses(root)
	for name, from := range map[string]string{
		"xterm.css": "@xterm/xterm/css/xterm.css", "chart.css": "uplot/dist/uPlot.min.css"} {
		if err == nil {
			files[name], err = os.ReadFile(filepath.Join(root, sources, "node_modules", from))
		}
	}
	return files, err
}

func build(root string, entries []string, plugins []api.Plugin) (map[string][]byte, error) {
	folder, err := filepath.Abs(filepath.Join(root, sources))
	if err != nil {
		return nil, err
	}
	result := api.Build(api.BuildOptions{
		EntryPoints:       entries,
		AbsWorkingDir:     folder,
		Outdir:            folder, // only names the outputs
		EntryNames:        "[name]",
		Bundle:            true,
		MinifyWhitespace:  true,
		MinifyIdentifiers: true,
		MinifySyntax:      true,
		Format:            api.FormatESModule,
		Platform:          api.PlatformBrowser,
		Target:            api.ES2022,
		Charset:           api.CharsetUTF8,
		LegalComments:     api.LegalCommentsNone, // licenses.txt has them
		JSX:               api.JSXAutomatic,
		JSXImportSource:   "preact",
		Plugins:           plugins,
		LogLevel:          api.LogLevelSilent,
		LineLimit:         4000,
	})
	if len(result.Errors) > 0 {
		texts := api.FormatMessages(result.Errors, api.FormatMessagesOptions{Kind: api.ErrorMessage})
		return nil, errors.New(strings.Join(texts, ""))
	}
	files := map[string][]byte{}
	for _, f := range result.OutputFiles {
		files[filepath.Base(f.Path)] = f.Contents
	}
	return files, nil
}

// licenses returns the licenses of all packages that are not only for development, by the lock file (version 3).
func licenses(root string) ([]byte, error) {
	text, err := os.ReadFile(filepath.Join(root, sources, "package-lock.json"))
	if err != nil {
		return nil, err
	}
	var lock struct {
		Packages map[string]struct{ Dev bool }
	}
	if err := json.Unmarshal(text, &lock); err != nil {
		return nil, err
	}
	var out strings.Builder
	for _, folder := range slices.Sorted(maps.Keys(lock.Packages)) {
		pkg, ok := strings.CutPrefix(folder, "node_modules/")
		if !ok || lock.Packages[folder].Dev {
			continue
		}
		names, err := filepath.Glob(filepath.Join(root, sources, folder, "LICENSE*"))
		if err != nil || len(names) == 0 {
			return nil, errors.Join(err, fmt.Errorf("%s has no license file", pkg))
		}
		for _, name := range names {
			text, err := os.ReadFile(name)
			if err != nil {
				return nil, err
			}
			fmt.Fprintf(&out, "== %s\n\n%s\n\n", pkg, strings.TrimSpace(string(text)))
		}
	}
	return []byte(out.String()), nil
}
