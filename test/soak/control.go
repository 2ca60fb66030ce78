package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// outcome is a program's output and files.
type outcome struct {
	stdout string
	files  map[string]string // the compared files, by path
}

// control runs a program on this host without a sandbox. A program that fails here too proves nothing about sandboxes.
func (p *program) control(ctx context.Context, variant int) (outcome, error) {
	dir, err := os.MkdirTemp("", "soak-control-")
	if err != nil {
		return outcome{}, err
	}
	defer os.RemoveAll(dir)
	work, home := filepath.Join(dir, "work"), filepath.Join(dir, "home")
	script := filepath.Join(dir, p.name)
	for _, d := range []string{work, home} {
		if err := os.Mkdir(d, 0o700); err != nil {
			return outcome{}, err
		}
	}
	for _, f := range append([]liveserver.File{{Path: "../" + p.name, Content: []byte(p.code)}}, p.files...) {
		path := filepath.Join(work, f.Path)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			return outcome{}, err
		}
		if err := os.WriteFile(path, f.Content, 0o600); err != nil {
			return outcome{}, err
		}
	}
	cmd := exec.CommandContext(ctx, p.interpreter, script, fmt.Sprint(variant))
	cmd.Dir, cmd.Stdin = work, strings.NewReader(p.stdin)
	cmd.Env = []string{
		"PATH=/usr/local/bin:/usr/bin:/bin", "HOME=" + home, "LANG=C.UTF-8", "TMPDIR=" + home,
		"PYTHONDONTWRITEBYTECODE=1",
	}
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		return outcome{}, fmt.Errorf("%w: %s", err, bytes.TrimSpace(stderr.Bytes()))
	}
	if len(stdout) == 0 {
		return outcome{}, errors.New("the program printed nothing")
	}
	o := outcome{stdout: string(stdout)}
	o.files, err = p.readFiles(work)
	return o, err
}

// readFiles reads the files that the program created and that its globs match. The globs are "dir/**" and "*.ext".
func (p *program) readFiles(work string) (map[string]string, error) {
	files := map[string]string{}
	err := filepath.WalkDir(work, func(path string, e fs.DirEntry, err error) error {
		if err != nil || !e.Type().IsRegular() {
			return err
		}
		name, err := filepath.Rel(work, path)
		given := slices.ContainsFunc(p.files, func(f liveserver.File) bool { return f.Path == name })
		if err != nil || given || !matches(p.returns, name) {
			return err
		}
		text, err := os.ReadFile(path)
		files[name] = string(text)
		return err
	})
	return files, err
}

func matches(globs []string, name string) bool {
	for _, g := range globs {
		if dir, ok := strings.CutSuffix(g, "/**"); ok && strings.HasPrefix(name, dir+"/") {
			return true
		}
		if ok, err := filepath.Match(g, name); ok && err == nil {
			return true
		}
	}
	return false
}

// check returns an error if an answer differs from the program's outcome without a sandbox.
func (want *outcome) check(a *liveserver.Answer) error {
	switch {
	case a.Status != "succeeded":
		return fmt.Errorf("status %s, exit code %s, signal %s; hint: %s; stderr: %s",
			a.Status, exitCode(a), a.Signal, a.Hint, last(a.Stderr))
	case a.Stdout != want.stdout:
		return fmt.Errorf("stdout is %q, want %q; stderr: %s", last(a.Stdout), last(want.stdout), last(a.Stderr))
	case len(a.Files) != len(want.files):
		return fmt.Errorf("%d files returned, want %d", len(a.Files), len(want.files))
	}
	for _, f := range a.Files {
		if text, ok := want.files[f.Path]; !ok || text != f.Bytes() {
			return fmt.Errorf("the file %s is unexpected or differs", f.Path)
		}
	}
	return nil
}

func exitCode(a *liveserver.Answer) string {
	if a.ExitCode == nil {
		return "none"
	}
	return fmt.Sprint(*a.ExitCode)
}

const shownBytes = 600 // of a stream, in a failure report

func last(s string) string {
	if len(s) > shownBytes {
		s = "..." + s[len(s)-shownBytes:]
	}
	return strings.TrimSpace(s)
}
