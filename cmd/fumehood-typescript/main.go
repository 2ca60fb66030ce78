// Fumehood-typescript bundles a TypeScript program and the local files that it imports to one JavaScript file. It runs
// in the sandbox of the code. Its input is hostile.
//
//	fumehood-typescript SOURCE OUTPUT
//	fumehood-typescript --imports FILE
//
// OUTPUT ends with .js. The package.json beside it declares it a module or a script, and node_modules links to that of
// the source. Types are removed without a check. If the source has errors, they are on stderr, and the exit code is 1.
//
// With --imports, it prints the modules that FILE imports as JSON. Code on stdin replaces that of FILE.
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/evanw/esbuild/pkg/api"
)

const maxErrors = 20 // that are printed

func main() {
	if len(os.Args) == 3 && os.Args[1] == "--imports" {
		found, err := imports(os.Args[2], os.Stdin)
		if err == nil {
			err = json.NewEncoder(os.Stdout).Encode(found)
		}
		if err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		return
	}
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: fumehood-typescript SOURCE OUTPUT")
		os.Exit(2)
	}
	if errors := compile(os.Args[1], os.Args[2]); len(errors) > 0 {
		for i, text := range errors {
			if i == maxErrors {
				fmt.Fprintf(os.Stderr, "and %d more errors\n", len(errors)-i)
				break
			}
			fmt.Fprintln(os.Stderr, text)
		}
		os.Exit(1)
	}
}

// compile returns the errors of the source, each as "FILE:LINE:COLUMN: error: TEXT" followed by the line.
func compile(source, output string) (errors []string) {
	folder := filepath.Dir(source)
	options := api.BuildOptions{
		EntryPoints:   []string{source},
		AbsWorkingDir: folder,
		Outfile:       output,
		Bundle:        true,
		Metafile:      true,
		Packages:      api.PackagesExternal, // Node finds them
		Platform:      api.PlatformNode,
		Target:        api.ES2022, // Node 18 knows all of it
		Format:        api.FormatESModule,
		Charset:       api.CharsetUTF8,
		Sourcemap:     api.SourceMapInline,
		SourceRoot:    "file://" + folder + "/",
		LogLevel:      api.LogLevelSilent,
		Banner:        map[string]string{"js": moduleBanner(source)},
	}
	result := api.Build(options)
	kind := "module"
	if script, alone := isScript(result.Metafile); script && len(result.Errors) == 0 {
		// A script without local imports is not bundled, so that require.main, module and exports work as in Node.
		options.Bundle, options.Banner, options.Format, kind = !alone, nil, api.FormatCommonJS, "commonjs"
		if alone {
			options.Packages, options.Format = api.PackagesDefault, api.FormatDefault
		}
		result = api.Build(options)
	}
	if len(result.Errors) > 0 {
		return words(result.Errors)
	}
	err := os.WriteFile(output, result.OutputFiles[0].Contents, 0o600)
	if err == nil {
		err = os.WriteFile(filepath.Join(filepath.Dir(output), "package.json"), []byte(`{"type":"`+kind+`"}`), 0o600)
	}
	if err == nil {
		_ = os.Symlink(filepath.Join(folder, "node_modules"), filepath.Join(filepath.Dir(output), "node_modules"))
		return nil
	}
	return []string{err.Error()}
}

// moduleBanner defines names of scripts in modules, where users of TypeScript expect them too. Declarations of the code
// take precedence.
func moduleBanner(source string) string {
	quoted, _ := json.Marshal(source) // a string always has a JSON form
	folder, _ := json.Marshal(filepath.Dir(source))
	return fmt.Sprintf(`import{createRequire as __fumehoodRequire}from"node:module";`+
		`globalThis.require??=__fumehoodRequire(%s);globalThis.__filename??=%s;globalThis.__dirname??=%s;`, quoted,
		quoted, folder)
}

// isScript reports whether the entry is CommonJS or neither, and whether it is the only file.
func isScript(metafile string) (script, alone bool) {
	var meta struct {
		Inputs  map[string]struct{ Format string }
		Outputs map[string]struct{ EntryPoint string }
	}
	if json.Unmarshal([]byte(metafile), &meta) != nil {
		return false, false
	}
	for _, output := range meta.Outputs {
		if input, ok := meta.Inputs[output.EntryPoint]; ok {
			return input.Format != "esm", len(meta.Inputs) == 1
		}
	}
	return false, false
}

func words(messages []api.Message) (out []string) {
	for _, m := range messages {
		text := "error: " + m.Text
		if at := m.Location; at != nil {
			text = fmt.Sprintf("%s:%d:%d: %s", at.File, at.Line, at.Column+1, text)
			if line := strings.TrimRight(at.LineText, " \t\r"); line != "" && len(line) < 500 {
				before := len([]rune(line[:min(at.Column, len(line))]))
				marker := strings.Repeat("~", max(1, min(at.Length, len(line)-at.Column)))
				text += "\n    " + line + "\n    " + strings.Repeat(" ", before) + marker
			}
		}
		out = append(out, text)
	}
	return out
}
