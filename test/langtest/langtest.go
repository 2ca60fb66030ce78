// Package langtest is the test suite of every language on every engine.
//
// A case is one text archive below testdata/LANGUAGE. Its comment holds lines "KEY: VALUE", its files what goes in and
// what must come out:
//
//	doc: why the case exists
//	file: main.cjs         the name of the code; absent is the language's default
//	args: one two          arguments of the program
//	exit: 3                exit code; absent is 0
//	exception: ValueError  name of the exception; absent is none
//	value: bad input       value of the exception, in full
//	hint: no_module nope   code of an expected hint, and the name in it
//
//	-- code --             the program
//	-- stdin --            what it reads
//	-- stdout --           what it must print, exactly
//	-- stderr --           text that its stderr must contain
//	-- any/other.name --   a file in the workspace
package langtest

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/fumehood-dev/fumehood/sandbox"
)

//go:embed testdata
var testdata embed.FS

// RunFunc executes one request in a fresh sandbox.
type RunFunc func(context.Context, sandbox.Request) (*sandbox.Result, error)

// Run tests one language: its probe, what all have in common, and every case of its folder.
func Run(t *testing.T, run RunFunc, lang sandbox.Language) {
	t.Run(lang.Name+"/probe", func(t *testing.T) {
		c := testCase{code: lang.Probe, stdout: "42\n", checkStdout: true}
		c.run(t, run, lang)
	})
	Programs(t, run, lang)
	dir := "testdata/" + lang.Name
	entries, err := testdata.ReadDir(dir)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		t.Fatal(err)
	}
	for _, entry := range entries {
		t.Run(lang.Name+"/"+strings.TrimSuffix(entry.Name(), ".txtar"), func(t *testing.T) {
			text, err := testdata.ReadFile(path.Join(dir, entry.Name()))
			if err != nil {
				t.Fatal(err)
			}
			c, err := parseCase(text)
			if err != nil {
				t.Fatal(err)
			}
			c.run(t, run, lang)
		})
	}
}

type testCase struct {
	doc, file           string
	args                []string
	exit                int
	exception, value    string
	hint                []string // code, name
	checkValue          bool
	code, stdin, stdout string
	checkStdout         bool
	stderr              string
	files               []sandbox.File
}

// anyFailure is an exit code that is not 0, or a signal.
const anyFailure = -1

type caseError string

func (e caseError) Error() string { return "langtest: " + string(e) }

func parseCase(text []byte) (*testCase, error) {
	archive := txtar.Parse(text)
	c := &testCase{}
	for line := range strings.Lines(string(archive.Comment)) {
		line = strings.TrimSpace(line)
		if line == "" {
			continue
		}
		key, value, ok := strings.Cut(line, ":")
		value = strings.TrimSpace(value)
		if !ok {
			return nil, caseError("a line without a key: " + line)
		}
		switch key {
		case "doc":
			c.doc = value
		case "file":
			c.file = value
		case "args":
			c.args = strings.Fields(value)
		case "exit":
			n, err := strconv.Atoi(value)
			if err != nil {
				return nil, err
			}
			c.exit = n
		case "exception":
			c.exception = value
		case "hint":
			c.hint = strings.Fields(value)
		case "value":
			c.value, c.checkValue = value, true
		default:
			return nil, caseError("unknown key " + key)
		}
	}
	for _, f := range archive.Files {
		switch f.Name {
		case "code":
			c.code = string(f.Data)
		case "stdin":
			c.stdin = string(f.Data)
		case "stdout":
			c.stdout, c.checkStdout = string(f.Data), true
		case "stderr":
			c.stderr = strings.TrimSpace(string(f.Data))
		default:
			c.files = append(c.files, sandbox.File{Path: f.Name, Data: f.Data})
		}
	}
	if c.doc == "" || c.code == "" {
		return nil, caseError("a case has a doc line and code")
	}
	return c, nil
}

func (c *testCase) run(t *testing.T, run RunFunc, lang sandbox.Language) {
	t.Helper()
	result, err := run(t.Context(), sandbox.Request{
		Language: lang.Name, Code: []byte(c.code), FileName: c.file, Args: c.args, Stdin: []byte(c.stdin),
		Files: slices.Clone(c.files),
	})
	if err != nil {
		t.Fatalf("%s: %v", c.doc, err)
	}
	problem := func(format string, args ...any) {
		t.Helper()
		t.Errorf(format, args...)
		t.Logf("%s\nstatus %s, exit code %d\nstdout:\n%s\nstderr:\n%s", c.doc, result.Status, result.ExitCode,
			result.Stdout.Head, result.Stderr.Head)
	}
	want := sandbox.StatusSucceeded
	if c.exit != 0 {
		want = sandbox.StatusFailed
	}
	if result.Status != want && !(c.exit == anyFailure && result.Status == sandbox.StatusKilled) ||
		result.ExitCode != c.exit && c.exit != anyFailure {
		problem("got status %s and exit code %d, want %s and %d", result.Status, result.ExitCode, want, c.exit)
	}
	if got := string(result.Stdout.Head); c.checkStdout && got != c.stdout {
		problem("got stdout %q, want %q", got, c.stdout)
	}
	if !strings.Contains(string(result.Stderr.Head), c.stderr) {
		problem("stderr does not hold %q", c.stderr)
	}
	if len(c.hint) > 0 && !slices.ContainsFunc(result.Hints, func(h sandbox.Hint) bool {
		return string(h.Code()) == c.hint[0] &&
			(len(c.hint) == 1 || strings.Contains(fmt.Sprintf("%+v", h), "Name:"+c.hint[1]))
	}) {
		problem("got hints %+v, want %v", result.Hints, c.hint)
	}
	switch e := result.Exception; {
	case c.exception == "" && e != nil:
		problem("got exception %q %q, want none", e.Name, e.Value)
	case c.exception != "" && e == nil:
		problem("got no exception, want %s", c.exception)
	case e != nil && (e.Name != c.exception || c.checkValue && e.Value != c.value):
		problem("got exception %q %q, want %q %q", e.Name, e.Value, c.exception, c.value)
	case e != nil && e.Traceback == "":
		problem("the exception has no traceback")
	}
}
