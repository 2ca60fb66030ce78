// Package papers runs the examples of README.md and docs as a reader would paste them.
package papers

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// block is one fenced block of a page. Its language selects the test: run it and compare the output (console), run it
// (python), vet it (go), read it as a configuration (toml), or nothing (text; py and ts, which the tests of the clients
// run).
type block struct {
	language, text string
	line           int
}

func TestPapers(t *testing.T) {
	pages, err := filepath.Glob("../../docs/*.md")
	if err != nil {
		t.Fatal(err)
	}
	r := newReader(t)
	for _, page := range append(pages, "../../README.md") {
		t.Run(filepath.Base(page), func(t *testing.T) {
			text, err := os.ReadFile(page)
			if err != nil {
				t.Fatal(err)
			}
			if n := bytes.Count(text, []byte("\n")); n > 150 {
				t.Errorf("%d lines; a page has at most 150", n)
			}
			dir := t.TempDir()
			for _, b := range blocks(string(text)) {
				r.try(t, dir, b)
			}
		})
	}
}

func blocks(text string) []block {
	var all []block
	var open *block
	for i, line := range strings.SplitAfter(text, "\n") {
		fence, ok := strings.CutPrefix(strings.TrimSpace(line), "```")
		switch {
		case ok && open == nil:
			open = &block{language: fence, line: i + 1}
		case ok:
			all, open = append(all, *open), nil
		case open != nil:
			open.text += line
		}
	}
	return all
}

// reader is a reader's environment: fumehood on the PATH, and a server.
type reader struct {
	env []string
	url string
}

func newReader(t *testing.T) *reader {
	bin := t.TempDir()
	build := exec.CommandContext(t.Context(), "go", "build", "-buildvcs=false", "-o", bin, "../../cmd/fumehood")
	if output, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, output)
	}
	env := append(os.Environ(), "PATH="+bin+":/usr/bin:/bin:"+os.Getenv("PATH"), "XDG_CONFIG_HOME="+t.TempDir())
	if os.Getuid() != 0 { // an ordinary user may have no cgroups
		env = append(env, "FUMEHOOD_ALLOW_UNENFORCED=memory")
	}
	s, err := liveserver.Start(t.Context(), liveserver.Options{Binary: filepath.Join(bin, "fumehood"), Env: env})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Stop(); err != nil {
			t.Error(err)
		}
	})
	return &reader{env: append(env, "SANDBOX_URL="+s.URL, "FUMEHOOD_SERVER="+s.URL), url: s.URL}
}

// run runs a program in dir and returns its output.
func (r *reader) run(t *testing.T, dir, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(t.Context(), name, args...)
	cmd.Dir, cmd.Env = dir, r.env
	output, err := cmd.CombinedOutput()
	return string(output), err
}

func (r *reader) try(t *testing.T, dir string, b block) {
	t.Helper()
	var output string
	var err error
	switch b.language {
	case "console":
		r.console(t, dir, b)
	case "python":
		output, err = r.run(t, dir, "/usr/bin/python3", "-c", b.text)
	case "go":
		output, err = r.run(t, ".", "go", "vet", program(t, b.text))
	case "toml":
		file := filepath.Join(dir, "config.toml")
		if err = os.WriteFile(file, []byte(b.text), 0o600); err == nil {
			output, err = r.run(t, dir, "bash", "-c", "fumehood --config "+file+" run --dry-run -c 1")
		}
	case "py", "ts", "text":
	default:
		t.Errorf("line %d: the block is %q; use console, python, py, ts, go, toml or text", b.line, b.language)
	}
	if err != nil {
		t.Errorf("line %d: %v\n%s", b.line, err, output)
	}
}

// console runs the commands of a block in one shell and compares the output with that of the block. A command begins
// with "$ " and continues in indented lines. "..." matches anything.
func (r *reader) console(t *testing.T, dir string, b block) {
	t.Helper()
	var script, want strings.Builder
	command := false
	for line := range strings.Lines(b.text) {
		first, starts := strings.CutPrefix(line, "$ ")
		switch command = starts || command && strings.HasPrefix(line, "    "); {
		case command:
			script.WriteString(first)
		default:
			want.WriteString(line)
		}
	}
	address := strings.TrimPrefix(r.url, "http://")
	output, _ := r.run(t, dir, "bash", "-c", strings.ReplaceAll(script.String(), "localhost:7070", address))
	if !matches(output, want.String()) {
		t.Errorf("line %d: the output is\n%s\nwant\n%s", b.line, output, want.String())
	}
}

// matches compares texts, without leading and trailing space.
func matches(output, want string) bool {
	pattern := strings.ReplaceAll(regexp.QuoteMeta(strings.TrimSpace(want)), `\.\.\.`, `(?s:.*)`)
	return regexp.MustCompile(`^` + pattern + `$`).MatchString(strings.TrimSpace(output))
}

// program writes a Go file with a block's imports and statements.
func program(t *testing.T, text string) string {
	imports, body, _ := strings.Cut(text, "\n\n")
	source := "package main\n\nimport \"context\"\n" + imports + "\n\nfunc run(ctx context.Context, code string) {\n" +
		strings.ReplaceAll(body, "{ ... }", "{ panic(err) }") +
		"}\n\nfunc main() { run(context.Background(), \"print(42)\") }\n"
	file := filepath.Join(t.TempDir(), "main.go")
	if err := os.WriteFile(file, []byte(source), 0o600); err != nil {
		t.Fatal(err)
	}
	return file
}
