package answer_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math/bits"
	"reflect"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestEveryCodeHasWords: every face has words for every code of package sandbox.
func TestEveryCodeHasWords(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "../../sandbox/hint.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	codes := 0
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		code, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		codes++
		h := sandbox.Hint{Code: sandbox.HintCode(code), Limit: sandbox.LimitMemory, Value: 1 << 20, Names: []string{"x"}}
		for name, face := range map[string]answer.Face{"command line": answer.CommandLine, "HTTP": answer.HTTP, "tool": answer.Tool} {
			text := face.Hint([]sandbox.Hint{h})
			if strings.HasPrefix(spec.Names[0].Name, "Fix") {
				text = face.Fix(&sandbox.Error{Hint: h})
			}
			if own := h.Code == sandbox.FixRoot && name != "command line"; (text == "") != own { // the root is the operator's to choose
				t.Errorf("%s on the %s: %q", spec.Names[0].Name, name, text)
			}
		}
		hasNoBlanks(t, h.Code)
		return false
	})
	if codes < 40 {
		t.Errorf("only %d codes were found", codes)
	}
}

// blank is where a phrase that a face lacks has left a sentence with a hole.
var blank = regexp.MustCompile(`  | [.,;:)]|[(:]\.|\(\)|^\s|\s$`)

// nameless are the codes whose name may be unknown.
var nameless = []sandbox.HintCode{sandbox.HintRejected, sandbox.HintNoCommand, sandbox.HintNoModule, sandbox.HintMissingFile, sandbox.HintReadOnly}

// hasNoBlanks words a hint of a code on each face, with every choice of what is true and of what is known.
func hasNoBlanks(t *testing.T, code sandbox.HintCode) {
	var choices []func(h *sandbox.Hint)
	of := reflect.TypeFor[sandbox.Hint]()
	for i := range of.NumField() {
		if of.Field(i).Type.Kind() == reflect.Bool {
			choices = append(choices, func(h *sandbox.Hint) { reflect.ValueOf(h).Elem().Field(i).SetBool(true) })
		}
	}
	choices = append(choices, func(h *sandbox.Hint) { h.Package = "x" }, func(h *sandbox.Hint) { h.Others, h.Raise = []string{"x: y"}, 2<<20 })
	if slices.Contains(nameless, code) {
		choices = append(choices, func(h *sandbox.Hint) { h.Name = "" })
	}
	for chosen := range 1 << len(choices) {
		if bits.OnesCount(uint(chosen)) > 4 { // no sentence depends on more
			continue
		}
		h := sandbox.Hint{Code: code, Name: "x", Names: []string{"x"}, Count: 2, Limit: sandbox.LimitMemory, Value: 1 << 20, By: "x", ExitCode: 1}
		for i, choose := range choices {
			if chosen>>i&1 == 1 {
				choose(&h)
			}
		}
		if code == sandbox.HintNoStandard {
			h.Package = "x"
		}
		for name, face := range map[string]answer.Face{"command line": answer.CommandLine, "HTTP": answer.HTTP, "tool": answer.Tool} {
			if text := face.Hint([]sandbox.Hint{h}); blank.MatchString(text) {
				t.Fatalf("on the %s, a blank in %q: %+v", name, text, h)
			}
		}
	}
}

// TestFaces: each face says the same in words that its callers can paste.
func TestFaces(t *testing.T) {
	memory := sandbox.Hint{Code: sandbox.HintMemoryKilled, Limit: sandbox.LimitMemory, Value: 512 << 20, Raise: 1 << 30}
	seconds := sandbox.Hint{Code: sandbox.HintTimeout, Limit: sandbox.LimitTimeout, Value: 30e9, Raise: 60e9}
	for _, c := range []struct {
		hint      sandbox.Hint
		cli, http string
	}{
		{memory, "or raise it: --memory 1GiB.", "or raise limits.memory_mib to 1024."},
		{seconds, "or raise it: --timeout 60s.", "or raise limits.timeout_s to 60."},
		{sandbox.Hint{Code: sandbox.HintNoNetwork}, "with --file PATH; to reach a host, allow it with --allow HOST.", `in "files"; to reach a host, allow it with "network": {"allow": ["HOST"]}.`},
		{sandbox.Hint{Code: sandbox.HintNoInput}, "Give it input with -i or --stdin FILE.", `Give it input in "stdin".`},
		{sandbox.Hint{Code: sandbox.HintSkipped, Count: 8, Files: []sandbox.Skipped{{Path: "a", Code: sandbox.SkipTooLarge}, {Path: "b", Code: sandbox.SkipTooLarge},
			{Code: sandbox.SkipPipe}}},
			"8 files were not returned: a, b (too large), a file (a pipe), and 5 more.", "8 files were not returned: a, b (too large), a file (a pipe), and 5 more."},
	} {
		hints := []sandbox.Hint{c.hint}
		if cli, http := answer.CommandLine.Hint(hints), answer.HTTP.Hint(hints); !strings.HasSuffix(cli, c.cli) || !strings.HasSuffix(http, c.http) {
			t.Errorf("%s: %q and %q", c.hint.Code, cli, http)
		}
	}
	for _, c := range []struct {
		err       sandbox.Error
		cli, http string
	}{
		{sandbox.Error{Hint: sandbox.Hint{Code: sandbox.FixBackend, Names: []string{"docker", "podman"}}},
			"choose another backend: --backend docker or --backend podman", `choose another backend: "backend": "docker" or "backend": "podman"`},
		{sandbox.Error{Hint: sandbox.Hint{Code: sandbox.FixImage, Name: "python:3.12-slim"}},
			"choose an image that has it: --image python:3.12-slim", `choose an image that has it: "image": "python:3.12-slim"`},
		{sandbox.Error{Fix: "install the package bash on this host", Hint: sandbox.Hint{Code: sandbox.FixRoot}},
			"install the package bash on this host; or choose a directory that has it: --root DIR", "install the package bash on this host"},
		{sandbox.Error{Fix: "run as root", Unenforced: []sandbox.LimitName{"memory", "pids"}},
			`run as root; or run without: --allow-unenforced memory,pids (for all runs: allow_unenforced = ["memory", "pids"] in the configuration file)`,
			`run as root; or run without: "allow_unenforced": ["memory", "pids"]`},
	} {
		if cli, http := answer.CommandLine.Fix(&c.err), answer.HTTP.Fix(&c.err); cli != c.cli || http != c.http {
			t.Errorf("%q and %q", cli, http)
		}
	}
}
