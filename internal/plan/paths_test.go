package plan

import (
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestCheckPath(t *testing.T) {
	for _, good := range []string{"a", "a/b", ".a", "...", "a b", "ü", "a\xff\n", "-rf", strings.Repeat("x", MaxName)} {
		if err := CheckPath("path", good); err != nil {
			t.Errorf("%q: %v", good, err)
		}
	}
	for _, bad := range []string{"", "/", "/a", "a/", "a//b", "./a", ".", "..", "../a", "a/..", "a/../b", "a/./b",
		"a\x00b",
		strings.Repeat("x", MaxName+1), strings.Repeat("x/", 300) + "y", strings.Repeat("abc/", 1250) + "x"} {
		if err := CheckPath("path", bad); sandbox.KindOf(err) != sandbox.Invalid || err == nil {
			t.Errorf("%.40q: %v, want Invalid", bad, err)
		}
	}
}

func TestCheckFiles(t *testing.T) {
	files := func(paths ...string) (out []sandbox.File) {
		for _, p := range paths {
			out = append(out, sandbox.File{Path: p})
		}
		return out
	}
	for _, test := range []struct {
		files []sandbox.File
		taken string
		want  string // part of the error; "" is none
	}{
		{files("a", "b/c", "b/d", "b-", "b0"), "main.py", ""},
		{files("a", "b", "a"), "", "twice"},
		{files("b/c", "b-", "b"), "", "folder"},
		{files("main.py"), "main.py", "code's file"},
		{files("main.py/x"), "main.py", "folder"},
		{files("../x"), "", "leaves"},
		{[]sandbox.File{{Path: "x", Mode: 0o4755}}, "", "permission"},
		{make([]sandbox.File, MaxFiles+1), "", "limit"},
	} {
		err := checkFiles(test.files, test.taken)
		if (err == nil) != (test.want == "") || err != nil && !strings.Contains(err.Error(), test.want) {
			t.Errorf("%d files: %v, want %q", len(test.files), err, test.want)
		}
	}
}

// FuzzCheckPath: what is accepted stays below the workspace and is written in one way only.
func FuzzCheckPath(f *testing.F) {
	for _, s := range []string{"a/b", "../a", "a//b", "a/./b", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, p string) {
		if CheckPath("path", p) != nil {
			return
		}
		joined, err := Dir(p)
		if err != nil || joined != sandbox.Workspace+"/"+p {
			t.Errorf("%q is accepted, but leads to %q (%v)", p, joined, err)
		}
	})
}

// TestFilesCost: the work of comparing paths grows with their bytes, not with how often they are compared: 10,000 long
// ones took nine seconds.
func TestFilesCost(t *testing.T) {
	files := make([]sandbox.File, 2000)
	for i := range files {
		files[i].Path = strings.Repeat("a-long-folder/", 200) + strconv.Itoa(i*7919%len(files))
	}
	each := testing.AllocsPerRun(1, func() {
		if err := checkFiles(files, ""); err != nil {
			t.Error(err)
		}
	}) / float64(len(files))
	if each > 6 {
		t.Errorf("%.0f allocations for each path: it is copied whenever it is compared", each)
	}
}

// TestFilePath: a relative path stays in the workspace, and an absolute one out of the kernel's file systems.
func TestFilePath(t *testing.T) {
	for path, want := range map[string]string{"a/b": "/workspace/a/b", ".": "/workspace", "a/../b": "/workspace/b",
		"/tmp/x": "/tmp/x", "/workspace/../tmp/x": "/tmp/x", "../x": "", "a/../../x": "", "..": "",
		"/proc/self/mem":  "",
		"../workspace2/x": "", "": ""} {
		got, err := FilePath(path)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q is %q: %v", path, got, err)
		}
	}
}

func TestResolveDir(t *testing.T) {
	for dir, want := range map[string]string{
		"": "/workspace", "a": "/workspace/a", "a/../b/": "/workspace/b", "/tmp/": "/tmp",
		"..": "/", "/process": "/process"} {
		if got, err := Dir(dir); err != nil || got != want {
			t.Errorf("%q: %q, %v; want %q", dir, got, err, want)
		}
	}
	for _, dir := range []string{"/proc", "/proc/self/fd/7", "../proc/self/cwd", "/sys", "/dev/fd/3", "/tmp/../proc/1",
		"a\x00"} {
		if got, err := Dir(dir); sandbox.KindOf(err) != sandbox.Invalid || err == nil {
			t.Errorf("%q: %q, %v; want Invalid", dir, got, err)
		}
	}
}

func TestEnv(t *testing.T) {
	for _, bad := range []string{"A", "=x", "1A=x", "A B=x", "A-B=x", "A=\x00", "Ä=x", "FUMEHOOD_EXECUTION=x", "A=" +
		strings.Repeat("x", MaxWord)} {
		if CheckEnv("env", []string{bad}) == nil {
			t.Errorf("%.40q is accepted", bad)
		}
	}
	if err := CheckEnv("env", []string{"A=", "_b1==\n", "PATH=/x"}); err != nil {
		t.Error(err)
	}
	got := strings.Join(MergeEnv([]string{"A=1", "B=1"}, nil, []string{"B=2", "C=3"}, []string{"A=4"}), " ")
	if got != "A=4 B=2 C=3" {
		t.Errorf("merged to %q", got)
	}
	for _, test := range []struct{ env, want string }{
		{"A=1", "A=1 P=/w"}, {"P=/a A=1", "P=/a:/w A=1"}, {"P=", "P=/w"}} {
		if got := strings.Join(AddPath(strings.Fields(test.env), "P", "/w"), " "); got != test.want {
			t.Errorf("%q: %q, want %q", test.env, got, test.want)
		}
	}
}

func TestLanguageTable(t *testing.T) {
	argv := func(program, path string) []string { return []string{program, path} }
	table, err := NewLanguages([]sandbox.Language{
		{Name: "python", Aliases: []string{"py", "python3"}, Extensions: []string{".py"}, FileName: "main.py",
			Programs: []string{"p"}, Argv: argv},
		{Name: "bash", Aliases: []string{"sh"}, Extensions: []string{".sh"}, FileName: "main.sh",
			Programs: []string{"b"}, Argv: argv},
	})
	if err != nil {
		t.Fatal(err)
	}
	for word, want := range map[string]string{"python": "python", " PY ": "python", "Sh": "bash"} {
		if l, err := table.Find(word); err != nil || l.Name != want {
			t.Errorf("%q: %q, %v", word, l.Name, err)
		}
	}
	for word, near := range map[string]string{
		"pyton": "python", "bahs": "bash", "cobol": "", "xy": "", strings.Repeat("p", 1000): ""} {
		_, err := table.Find(word)
		if err == nil || !strings.Contains(err.Error(), "python, bash") {
			t.Errorf("%.40q: %v does not say what is supported", word, err)
		}
		if fix := sandbox.FixOf(err); near == "" != (fix == "") || !strings.Contains(fix, near) {
			t.Errorf("%.40q: fix %q, want %q", word, fix, near)
		}
	}
	if l, ok := table.ByExtension("a.b.PY"); !ok || l.Name != "python" {
		t.Error("the extension .PY is not python's")
	}
}
