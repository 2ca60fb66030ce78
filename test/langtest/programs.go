package langtest

import (
	"path"
	"strings"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/txtar"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// What the programs of programs/LANGUAGE.txtar do, the same in every language: a line of the comment "error: NAME |
// VALUE" says what the uncaught error is.
const (
	programHello  = "hello"  // prints its first argument, then the line that it reads
	programExit   = "exit"   // ends with exit code 3, after a line on stderr
	programError  = "error"  // ends with an uncaught error
	programSyntax = "syntax" // has a syntax error
	programLoop   = "loop"   // never ends
)

const loopTimeout = 2 * time.Second // longer than the start of any interpreter that has the machine for itself

// Programs runs the programs that every language has.
func Programs(t *testing.T, run RunFunc, lang sandbox.Language) {
	text, err := testdata.ReadFile(path.Join("testdata/programs", lang.Name+".txtar"))
	if err != nil {
		t.Fatal(err)
	}
	archive := txtar.Parse(text)
	programs := map[string]string{}
	for _, f := range archive.Files {
		programs[f.Name] = string(f.Data)
	}
	name, value, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(string(archive.Comment), "error: ")), " | ")
	cases := map[string]testCase{
		programHello: {args: []string{"one"}, stdin: "two\n", stdout: "one\ntwo\n", checkStdout: true},
		programExit:  {exit: 3, stderr: "three"},
		programError: {exit: anyFailure, exception: name, value: value, checkValue: true},
	}
	for name, c := range cases {
		t.Run(lang.Name+"/programs/"+name, func(t *testing.T) {
			c.doc, c.code = "every language does this", programs[name]
			c.run(t, run, lang)
		})
	}
	ends := func(program string, timeout time.Duration) *sandbox.Result {
		r, err := run(t.Context(), sandbox.Request{Language: lang.Name, Code: []byte(programs[program]),
			Timeout: timeout})
		if err != nil {
			t.Fatalf("%s: %v", program, err)
		}
		return r
	}
	t.Run(lang.Name+"/programs/"+programSyntax, func(t *testing.T) {
		r := ends(programSyntax, 0)
		if r.Status != sandbox.StatusFailed || r.ExitCode < 1 || len(r.Stderr.Head) == 0 {
			t.Errorf("%s, exit code %d: %s", r.Status, r.ExitCode, r.Stderr.Head)
		}
		if failed := r.Compiled != nil && r.Compiled.Failed; failed != (lang.Compile != nil) {
			t.Errorf("the compile phase: %+v", r.Compiled)
		}
	})
	t.Run(lang.Name+"/programs/"+programLoop, func(t *testing.T) {
		if r := ends(programLoop, loopTimeout); r.Status != sandbox.StatusTimeout || r.Compiled != nil &&
			r.Compiled.Failed {
			t.Errorf("%s, exit code %d, %+v: %s", r.Status, r.ExitCode, r.Compiled, r.Stderr.Head)
		}
	})
}
