package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

// module is an imported module in the format of a package survey.
type module struct {
	Name     string `json:"name"`
	Optional bool   `json:"optional"` // the code only resolves its path
}

const maxModules = 1000

// imports lists the modules that code imports, requires or imports dynamically, including those of local files. The
// code on stdin replaces that of the file, unless it is empty. Invalid code imports nothing: the run itself reports the
// error.
func imports(file string, stdin io.Reader) ([]module, error) {
	source, err := io.ReadAll(stdin)
	if err != nil {
		return nil, err
	}
	found, seen := []module{}, map[string]bool{}
	collect := api.Plugin{Name: "imports", Setup: func(b api.PluginBuild) {
		external := api.OnResolveOptions{Filter: `^[^./]|^\.[^./]`}
		b.OnResolve(external, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			if a.Kind != api.ResolveEntryPoint && !seen[a.Path] && len(found) < maxModules {
				seen[a.Path] = true
				found = append(found, module{a.Path, a.Kind == api.ResolveJSRequireResolve})
			}
			return api.OnResolveResult{Path: a.Path, External: a.Kind != api.ResolveEntryPoint}, nil
		})
	}}
	options := api.BuildOptions{AbsWorkingDir: filepath.Dir(file), Outdir: os.DevNull, Bundle: true,
		Platform: api.PlatformNode, LogLevel: api.LogLevelSilent, TsconfigRaw: "{}", Plugins: []api.Plugin{collect},
		Loader: map[string]api.Loader{".js": api.LoaderJSX, ".mjs": api.LoaderJSX, ".cjs": api.LoaderJSX}}
	if len(source) > 0 {
		loader := api.LoaderTS
		switch ext := filepath.Ext(file); {
		case strings.HasSuffix(ext, "js"): // an unused import of JavaScript still loads the module
			loader = api.LoaderJSX
		case strings.HasSuffix(ext, "x"):
			loader = api.LoaderTSX
		}
		options.Stdin = &api.StdinOptions{Contents: string(source), ResolveDir: filepath.Dir(file), Sourcefile: file,
			Loader: loader}
	} else {
		options.EntryPoints = []string{file}
	}
	api.Build(options) // the run itself reports errors
	return found, nil
}
