package main

import (
	"embed"
	"io"
	"os"
	"path/filepath"
	"text/template"
)

//go:embed templates
var templates embed.FS

// scripts writes the files that download others: install.sh, and a formula for Homebrew.
func (r *release) scripts() error {
	sums, _, err := r.digests()
	if err != nil {
		return err
	}
	data := map[string]any{"Version": r.version, "URL": r.url, "Sums": sums, "Number": packageVersion(r.version),
		"PublicKey": r.publicKey(), "Systems": map[string]string{"darwin": "macos", "linux": "linux"},
		"Processors": []string{"arm64", "amd64"}}
	parsed, err := template.New("").Option("missingkey=error").Funcs(template.FuncMap{
		"sum": func(target string) string { return sums["fumehood-"+r.version+"-"+target+".tar.gz"] },
	}).ParseFS(templates, "templates/*")
	if err != nil {
		return err
	}
	for _, name := range []string{"install.sh", "fumehood.rb"} {
		path := filepath.Join(r.out, name)
		if err := r.written(path, func(w io.Writer) error { return parsed.ExecuteTemplate(w, name, data) }); err != nil {
			return err
		}
	}
	return os.Chmod(filepath.Join(r.out, "install.sh"), 0o755)
}
