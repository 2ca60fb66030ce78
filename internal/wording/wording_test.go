package wording_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"math/bits"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

var faces = map[string]wording.Face{"command line": wording.CommandLine, "HTTP": wording.HTTP, "tool": wording.Tool}

// TestHintsAreComplete: sandbox.Hints has every type and every note that package sandbox declares.
func TestHintsAreComplete(t *testing.T) {
	declared := 0
	for _, name := range []string{"hint.go", "fix.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join("../../sandbox", name), nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Name.Name == "Code" && n.Recv.List[0].Type.(*ast.Ident).Name != "Note" {
					declared++
				}
			case *ast.ValueSpec:
				if of, ok := n.Type.(*ast.Ident); ok && of.Name == "Note" {
					declared++
				}
			}
			return true
		})
	}
	if declared != len(sandbox.Hints) || declared < 60 {
		t.Errorf("%d hints are declared, and sandbox.Hints has %d", declared, len(sandbox.Hints))
	}
}

// Words that a face must not use. A phrase that a face lacks leaves a blank in a sentence.
var (
	blank = regexp.MustCompile(`  | [.,;:)]|[(:]\.|\(\)|^\s|\s$`)
	flag  = regexp.MustCompile(`(^|\s)--?[a-z]`)
	url   = regexp.MustCompile(`/v1/|\b(GET|POST|PATCH|DELETE) |"[a-z_]+": `)
)

// TestWords words each hint on each face, with every choice of facts.
func TestWords(t *testing.T) {
	for code, h := range sandbox.Hints {
		for _, h := range variants(h) {
			for name, face := range faces {
				text := face.Hint([]sandbox.Hint{h})
				if text == "" {
					text = face.Way(h)
				}
				switch {
				case text == "", blank.MatchString(text):
					t.Errorf("%s, on the %s: a blank in %q: %+v", code, name, text, h)
				case name == "HTTP" && flag.MatchString(text) && !strings.HasPrefix(text, "have the operator ") &&
					h != sandbox.HintUserFolder && h != sandbox.HintNested: // the flags of other programs
					t.Errorf("%s: a flag in the words of HTTP: %q", code, text)
				case name == "command line" && url.MatchString(text):
					t.Errorf("%s: words of HTTP on the command line: %q", code, text)
				}
			}
		}
	}
}

// variants returns a hint with every choice of its facts: those that may be left out are set or not.
func variants(h sandbox.Hint) []sandbox.Hint {
	if _, note := h.(sandbox.Note); note {
		return []sandbox.Hint{h}
	}
	var optional []func(of reflect.Value)
	filled := reflect.New(reflect.TypeOf(h)).Elem()
	var fill func(v reflect.Value, set func(of reflect.Value) reflect.Value)
	fill = func(v reflect.Value, at func(of reflect.Value) reflect.Value) {
		for i := range v.NumField() {
			field := v.Type().Field(i)
			there := func(of reflect.Value) reflect.Value { return at(of).Field(i) }
			if field.Anonymous {
				fill(v.Field(i), there)
				continue
			}
			value := example(field)
			if strings.Contains(field.Tag.Get("json"), ",omitempty") {
				optional = append(optional, func(of reflect.Value) { there(of).Set(value) })
			} else {
				there(filled).Set(value)
			}
		}
	}
	fill(filled, func(of reflect.Value) reflect.Value { return of })
	var out []sandbox.Hint
	for chosen := range 1 << len(optional) {
		if bits.OnesCount(uint(chosen)) > 4 && chosen != 1<<len(optional)-1 { // no sentence depends on more
			continue
		}
		variant := reflect.New(filled.Type()).Elem()
		variant.Set(filled)
		for i, set := range optional {
			if chosen>>i&1 == 1 {
				set(variant)
			}
		}
		out = append(out, variant.Interface().(sandbox.Hint))
	}
	return out
}

func example(f reflect.StructField) reflect.Value {
	switch v := reflect.New(f.Type).Elem(); f.Type {
	case reflect.TypeFor[sandbox.LimitName]():
		return reflect.ValueOf(sandbox.LimitMemory)
	case reflect.TypeFor[[]sandbox.LimitName]():
		return reflect.ValueOf([]sandbox.LimitName{"memory", "pids"})
	case reflect.TypeFor[[]sandbox.NetworkRefusal]():
		return reflect.ValueOf([]sandbox.NetworkRefusal{{Target: "x:443", Reason: "z", Allow: "x:443"},
			{Target: "y", Reason: "z"}})
	case reflect.TypeFor[[]sandbox.NetworkFailure]():
		return reflect.ValueOf([]sandbox.NetworkFailure{{Target: "x:443", Reason: "y"}})
	case reflect.TypeFor[[]sandbox.NetworkMisplaced]():
		return reflect.ValueOf([]sandbox.NetworkMisplaced{
			{Secret: "x", Host: "y", Place: sandbox.InBody, Reason: sandbox.MisplacedPlace},
			{Secret: "x", Host: "z", Place: sandbox.InPath, Reason: sandbox.MisplacedHost}})
	case reflect.TypeFor[[]sandbox.MissingCommand]():
		return reflect.ValueOf([]sandbox.MissingCommand{{Name: "x"}, {Name: "y", Package: "z"}})
	case reflect.TypeFor[[]sandbox.Skipped]():
		return reflect.ValueOf([]sandbox.Skipped{{Path: "x", Code: sandbox.SkipTooLarge}})
	case reflect.TypeFor[[]string]():
		return reflect.ValueOf([]string{"x"})
	default:
		switch f.Type.Kind() {
		case reflect.String:
			v.SetString("x")
		case reflect.Bool:
			v.SetBool(true)
		default:
			v.SetInt(2 << 20)
		}
		return v
	}
}

// TestFaces: each face says the same in words that its callers can paste.
func TestFaces(t *testing.T) {
	memory := sandbox.HintMemoryKilled{Bound: sandbox.Bound{Limit: sandbox.LimitMemory, Value: 512 << 20,
		Raise: 1 << 30}}
	seconds := sandbox.HintTimeout{Bound: sandbox.Bound{Limit: sandbox.LimitTimeout, Value: 30e9, Raise: 60e9}}
	refused := sandbox.HintRefused{Refusals: []sandbox.NetworkRefusal{{Target: "a.com:443",
		Reason: sandbox.NetworkNoRule, Allow: "a.com:443"}}, Living: true}
	for _, c := range []struct {
		hint      sandbox.Hint
		cli, http string
	}{
		{memory, "or raise it: --memory 1GiB.", "or raise limits.memory_mib to 1024."},
		{seconds, "or raise it: --timeout 60s.", "or raise limits.timeout_s to 60."},
		{sandbox.HintNoNetwork{}, "with --file PATH; to reach a host, allow it with --allow HOST.",
			`in "files"; to reach a host, allow it with "network": {"allow": ["HOST"]}.`},
		{sandbox.HintNoNetwork{Living: true}, "to reach a host, make a sandbox with fumehood create --allow HOST.",
			`make a sandbox with "network": {"allow": ["HOST"]}.`},
		{refused, "policy; make a sandbox with fumehood create --allow a.com:443.",
			"replace the rules by PATCH /v1/sandboxes/{id}, " +
				`or make a sandbox with "network": {"allow": ["a.com:443"]}.`},
		{sandbox.HintNoPackage{Modules: []string{"mysqlclient"}}, "request it by name and let it be built: " +
			"--allow-build; code of your own can be sent with --file PATH.", `"allow_build": true; code of your ` +
			`own can ` +
			`be sent in "files".`},
		{sandbox.HintMisplaced{Placeholders: []sandbox.NetworkMisplaced{{Secret: "KEY", Host: "a.com",
			Place: sandbox.InQuery, Reason: sandbox.MisplacedPlace}}},
			"To send it there, add it: --secret KEY@a.com:query.",
			`To send it there, add "places": ["query"] to the secret.`},
		{sandbox.HintNoInput, "Give it input with -i or --stdin FILE.", `Give it input in "stdin".`},
		{sandbox.HintSkipped{Count: 8, Files: []sandbox.Skipped{{Path: "a", Code: sandbox.SkipTooLarge}, {Path: "b",
			Code: sandbox.SkipTooLarge},
			{Code: sandbox.SkipPipe}}},
			"8 files were not returned: a, b (too large), a file (a pipe), and 5 more.", "8 files were not " +
				"returned: a, b (too large), a file (a pipe), and 5 more."},
	} {
		hints := []sandbox.Hint{c.hint}
		if cli, http := wording.CommandLine.Hint(hints), wording.HTTP.Hint(hints); !strings.HasSuffix(cli,
			c.cli) || !strings.HasSuffix(http, c.http) {
			t.Errorf("%s: %q and %q", c.hint.Code(), cli, http)
		}
	}
	for _, c := range []struct {
		err       sandbox.Error
		cli, http string
	}{
		{sandbox.Error{Fixes: []sandbox.Hint{sandbox.ChooseBackend("docker", "podman")}},
			"choose another backend: --backend docker or --backend podman",
			`choose another backend: "backend": "docker" or "backend": "podman"`},
		{sandbox.Error{Fixes: []sandbox.Hint{sandbox.ChooseImage("python:3.12-slim")}},
			"choose another image: --image python:3.12-slim", `choose another image: "image": "python:3.12-slim"`},
		{sandbox.Error{Fixes: []sandbox.Hint{sandbox.FixInstall{Command: "apt install ruby"}, sandbox.ChooseRoot()}},
			"apt install ruby; or choose a directory that has it: --root DIR",
			"apt install ruby; or have the operator choose a directory that has it: --root DIR"},
		{sandbox.Error{Fix: "run as root", Unenforced: []sandbox.LimitName{"memory", "pids"}},
			`run as root; or run without: --allow-unenforced memory,pids (for all runs: allow_unenforced = ["memory", "pids"] in the configuration file)`,
			`run as root; or run without: "allow_unenforced": ["memory", "pids"]`},
		{sandbox.Error{Fixes: []sandbox.Hint{sandbox.FixParam{Param: "allow_build", Values: []string{""},
			Purpose: "let it build"}}},
			"let it build: --allow-build", `let it build: "allow_build": true`},
		{sandbox.Error{Fixes: []sandbox.Hint{sandbox.FixParam{Param: "package_index", Values: []string{"python=URL"},
			Purpose: "name an index"}}},
			"name an index: --package-index python=URL", "have the operator name an index: --package-index python=URL"},
	} {
		if cli, http := wording.CommandLine.Fix(&c.err), wording.HTTP.Fix(&c.err); cli != c.cli || http != c.http {
			t.Errorf("%q and %q", cli, http)
		}
	}
	install := &sandbox.Error{Fixes: []sandbox.Hint{sandbox.FixInstall{Command: "apt install ruby"}}}
	if tool := wording.Tool.Fix(install); tool != "use language python, javascript or bash; or have the operator "+
		"install it: apt install ruby" {
		t.Errorf("%q", tool)
	}
	err := sandbox.Invalidf("limits.memory", "is over")
	if cli, http := wording.CommandLine.Text(err), wording.HTTP.Text(err); cli != "--memory: is "+
		"over" || http != "limits.memory_mib: is over" {
		t.Errorf("%q and %q", cli, http)
	}
}

// TestEach: all hints about one run say how it ended, and a hint of an unknown code keeps its text.
func TestEach(t *testing.T) {
	hints := []sandbox.Hint{sandbox.HintTimeout{}, sandbox.HintCanceled, sandbox.HintStateKept,
		api.UnknownHint{Hint: api.Hint{Code: "of the future", Text: "Words."}}, sandbox.HintOutputEnded{}}
	for name, face := range faces {
		texts := face.Each(hints)
		all := strings.Join(texts, " ")
		if strings.Contains(all, "killed") || !strings.Contains(texts[0], "interrupted") || texts[3] != "Words." ||
			face.Hint(hints) != all {
			t.Errorf("%s: %q and %q", name, texts, face.Hint(hints))
		}
	}
	for _, h := range []sandbox.Hint{sandbox.HintNoNetwork{Living: true}, sandbox.HintRefused{Living: true,
		Refusals: []sandbox.NetworkRefusal{{Target: "HOST", Reason: sandbox.NetworkNoRule, Allow: "HOST"}}}} {
		if text := wording.REPL.Hint([]sandbox.Hint{h}); !strings.HasSuffix(text, "allow it with --allow HOST.") {
			t.Errorf("repl: %q", text)
		}
	}
}

// TestFlags: the command line names the flag of each field that plan and engine refuse.
func TestFlags(t *testing.T) {
	flags := map[string]bool{"FILE": true}
	for _, name := range literals(t, "../../cmd/fumehood", regexp.MustCompile(`"([a-z-]+)"`)) { // some are in tables
		flags["--"+name] = true
	}
	for _, name := range literals(t, "../../cmd/fumehood", regexp.MustCompile(`Var\w*\([^"]*"([a-z-]+)"`)) {
		flags[name] = true
	}
	without := map[string]bool{ // arguments, parameters of paths and queries, and settings of a server
		"args": true, "command": true, "path": true, "port": true, "cursor": true, "after": true, "range": true,
		"mode": true, "depth": true, "signal": true, "backends": true, "languages": true, "queue timeout": true,
		"lifetime": true, "lifetime.ends_at": true, "terminal": true, "tools": true, "document": true,
		"warm images": true, "call_limits.wait_s": true,
	}
	ops := append(literals(t, "../plan", invalid), literals(t, "../engine", invalid)...)
	for _, op := range ops {
		if name := wording.CommandLine.Param(op); !flags[name] && !without[name] && !strings.HasPrefix(op, "limits.") {
			t.Errorf("%s is %q on the command line, which is no flag", op, name)
		}
	}
	if len(ops) < 50 {
		t.Errorf("only %d fields were found", len(ops))
	}
}

var invalid = regexp.MustCompile(`sandbox\.Invalidf\(\s*(?:fmt\.Sprintf\()?"([^"]+)"`)

// literals returns the first group of each match in the source of a package.
func literals(t *testing.T, dir string, pattern *regexp.Regexp) (found []string) {
	t.Helper()
	files, err := filepath.Glob(dir + "/*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		for _, match := range pattern.FindAllSubmatch(source, -1) {
			found = append(found, string(match[1]))
		}
	}
	return found
}
