package javascript

import (
	"path"
	"strings"

	"github.com/evanw/esbuild/pkg/api"

	"github.com/glovebox-dev/glovebox/sandbox"
)

const (
	maxScanned = 500     // files of the run that are looked at for imports
	maxSource  = 1 << 20 // bytes of one
	maxImports = 1000
)

// loaders are the syntaxes of files that code imports.
var loaders = map[string]api.Loader{".js": api.LoaderJSX, ".mjs": api.LoaderJSX, ".cjs": api.LoaderJSX, ".jsx": api.LoaderJSX, ".ts": api.LoaderTS, ".mts": api.LoaderTS,
	".cts": api.LoaderTS, ".tsx": api.LoaderTSX}

// Imports lists the modules that code imports, requires or imports dynamically, also by way of files that came with it. Those of files are left
// out. A file that is no JavaScript imports nothing: the run itself says why.
func Imports(name string, code []byte, files []sandbox.File) []sandbox.Import {
	sources := map[string][]byte{}
	for _, f := range files {
		if loaders[path.Ext(f.Path)] != 0 && len(f.Data) <= maxSource {
			sources[f.Path] = f.Data
		}
	}
	sources[name] = code
	found := []sandbox.Import{}
	known, todo := map[string]bool{}, []string{name}
	for seen := map[string]bool{name: true}; len(todo) > 0 && len(seen) < maxScanned; todo = todo[1:] {
		at := todo[0]
		for _, i := range scan(at, sources[at]) {
			if !strings.HasPrefix(i.Name, ".") {
				if !known[i.Name] && len(found) < maxImports {
					known[i.Name] = true
					found = append(found, i)
				}
				continue
			}
			if file := resolve(sources, path.Join(path.Dir(at), i.Name)); file != "" && !seen[file] {
				seen[file] = true
				todo = append(todo, file)
			}
		}
	}
	return found
}

// resolve finds the file that a relative import means.
func resolve(sources map[string][]byte, at string) string {
	for _, end := range []string{"", ".js", ".mjs", ".cjs", ".ts", ".tsx", ".jsx", "/index.js", "/index.ts"} {
		if sources[at+end] != nil {
			return at + end
		}
	}
	if stem, ok := strings.CutSuffix(at, ".js"); ok && sources[stem+".ts"] != nil { // as TypeScript names its output
		return stem + ".ts"
	}
	return ""
}

// scan lists what one file imports. The source is hostile, and the parser is Go; nothing is written, and no file is read.
func scan(name string, source []byte) (found []sandbox.Import) {
	if len(source) > maxSource {
		return nil
	}
	loader := loaders[path.Ext(name)]
	if loader == 0 {
		loader = api.LoaderJSX
	}
	collect := api.Plugin{Name: "imports", Setup: func(b api.PluginBuild) {
		b.OnResolve(api.OnResolveOptions{Filter: ".*"}, func(a api.OnResolveArgs) (api.OnResolveResult, error) {
			switch a.Kind {
			case api.ResolveJSImportStatement, api.ResolveJSRequireCall, api.ResolveJSDynamicImport, api.ResolveJSRequireResolve:
				if len(found) < maxImports {
					found = append(found, sandbox.Import{Name: a.Path, Optional: a.Kind == api.ResolveJSRequireResolve})
				}
			}
			return api.OnResolveResult{Path: a.Path, External: true}, nil
		})
	}}
	api.Build(api.BuildOptions{Stdin: &api.StdinOptions{Contents: string(source), Loader: loader}, Bundle: true, Write: false, LogLevel: api.LogLevelSilent,
		Platform: api.PlatformNeutral, Plugins: []api.Plugin{collect}, Outdir: "/", AbsWorkingDir: "/", TsconfigRaw: "{}"})
	return found
}
