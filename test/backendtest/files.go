package backendtest

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// fileCases test files on their way into and out of the workspace.
var fileCases = []testCase{
	{"files in", "files arrive complete, with their modes; their folders are made", testFilesIn},
	{"files out", "only new and changed files are returned", testFilesOut},
	{"code file", "the code is a file in the workspace under its own name, and is not returned", testCodeFile},
	{"entry", "code that is already in the workspace is run in place", testEntry},
	{"bounds out", "over a limit, files are left out and named, and the rest is returned", testBoundsOut},
	{"irregular files", "links, pipes, sockets and folders are neither followed nor read", testIrregularFiles},
	{"hostile names", "names are bytes, and are returned unchanged", testHostileNames},
	{"sparse giant", "a file that claims to be huge costs nothing", testSparseGiant},
	{"host directory", "a run changes a host directory only by what the program does there", testHostDirectory},
	{"read-only mount", "a mount shows the host's files, and is read-only unless requested", testMount},
	{"too much in", "files that do not fit give an error that says so", testTooMuchIn},
}

func sumLine(data []byte) string {
	sum := sha256.Sum256(data)
	return hex.EncodeToString(sum[:]) + "  -\n"
}

// hostDir returns a host directory that the code's user can write to, whoever runs the server.
func hostDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "fumehood-workspace-")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// byPath returns the files of a result by their paths.
func byPath(r *sandbox.Result) map[string]string {
	files := map[string]string{}
	for _, f := range r.Files {
		files[f.Path] = string(f.Data)
	}
	return files
}

func wantFiles(t *testing.T, r *sandbox.Result, want map[string]string) {
	t.Helper()
	if got := byPath(r); !maps.Equal(got, want) {
		t.Errorf("files %.500q, want %.500q; left out %+v", got, want, r.Skipped)
	}
}

func testFilesIn(t *testing.T, s *suite) {
	big := strings.Repeat("0123456789", 200_000)
	r := sh("find . -type f -printf '%P %m %s\\n' | sort; sha256sum < big; ./run.sh")
	r.Request.Files = []sandbox.File{
		{Path: "a/b/c.txt", Data: []byte("deep")},
		{Path: "big", Data: []byte(big)},
		{Path: "empty"},
		{Path: "run.sh", Mode: 0o755, Data: []byte("#!/bin/sh\necho ran\n")},
		{Path: "secret", Mode: 0o600, Data: []byte("x")},
	}
	wantOutput(t, s.run(t, r),
		"a/b/c.txt 644 4\nbig 644 2000000\nempty 644 0\nrun.sh 755 19\nsecret 600 1\n"+sumLine([]byte(big))+"ran\n")

	many := engine.OneShot{Request: sandbox.Request{Command: []string{"bash", "-c", "ls | wc -l"}}}
	for i := range 2000 {
		many.Request.Files = append(many.Request.Files, sandbox.File{Path: fmt.Sprintf("f%04d", i), Data: []byte("x")})
	}
	wantOutput(t, s.run(t, many), "2000\n")
}

func testFilesOut(t *testing.T, s *suite) {
	r := code(`echo changed > changed; echo same-size > touched; mkdir -p out/deep; echo made > out/deep/made.txt
		: > empty; chmod 750 out/deep/made.txt; rm gone; echo hidden > .hidden; echo no > out.log; mv kept moved`)
	r.Request.Files = []sandbox.File{
		{Path: "changed", Data: []byte("before")},
		{Path: "touched", Data: []byte("SAME-SIZE\n")},
		{Path: "unchanged", Data: []byte("u")},
		{Path: "gone", Data: []byte("g")},
		{Path: "kept", Data: []byte("k")},
	}
	r.Request.Return.Globs = []string{"**/*.txt", "*[^g]", ".*"}
	result := s.run(t, r)
	wantStatus(t, result, sandbox.StatusSucceeded)
	wantFiles(t, result, map[string]string{"changed": "changed\n", "touched": "same-size\n",
		"out/deep/made.txt": "made\n",
		"empty":             "", ".hidden": "hidden\n", "moved": "k"})
	for _, f := range result.Files {
		if f.Path == "out/deep/made.txt" && f.Mode != 0o750 {
			t.Errorf("mode %o", f.Mode)
		}
	}
	r.Request.Return.Globs = nil
	if result = s.run(t, r); len(result.Files) != 0 {
		t.Error("files are handed back that nobody asked for")
	}
	failing := sh("echo partial > report; exit 3")
	failing.Request.Return.Globs = []string{"report"}
	result = s.run(t, failing)
	wantStatus(t, result, sandbox.StatusFailed)
	wantFiles(t, result, map[string]string{"report": "partial\n"})
}

func testCodeFile(t *testing.T, s *suite) {
	r := code("echo $0 $1; ls")
	r.Request.Args = []string{"an argument"}
	r.Request.Return.Globs = []string{"**"}
	result := s.run(t, r)
	wantOutput(t, result, "/workspace/main.sh an argument\nmain.sh\n")
	wantFiles(t, result, map[string]string{})
	r = engine.OneShot{Request: sandbox.Request{FileName: "their own.sh", Code: []byte("echo $0; echo '#' >> \"$0\"\n")}}
	r.Request.Return.Globs = []string{"**"}
	result = s.run(t, r)
	wantOutput(t, result, "/workspace/their own.sh\n")
	wantFiles(t, result, map[string]string{"their own.sh": "echo $0; echo '#' >> \"$0\"\n#\n"})
}

func testEntry(t *testing.T, s *suite) {
	r := engine.OneShot{Request: sandbox.Request{Entry: "src/tool.sh", Args: []string{"x"},
		Files: []sandbox.File{{Path: "src/tool.sh", Data: []byte("echo $0 $1")}}}}
	wantOutput(t, s.run(t, r), "/workspace/src/tool.sh x\n")
}

func testBoundsOut(t *testing.T, s *suite) {
	r := sh("for i in 1 2 3 4 5; do printf 12345678 > f$i; done; head -c 100 /dev/zero > large")
	r.Request.Return = sandbox.Return{Globs: []string{"*"}, MaxFiles: 3, MaxFileBytes: 50}
	result := s.run(t, r)
	wantFiles(t, result, map[string]string{"f1": "12345678", "f2": "12345678", "f3": "12345678"})
	var names []string
	for _, l := range result.Skipped {
		names = append(names, l.Path)
		if l.Reason == "" || l.Size == 0 || l.Code != sandbox.SkipTooMany && l.Code != sandbox.SkipTooLarge {
			t.Errorf("left out without a reason or size: %+v", l)
		}
	}
	slices.Sort(names)
	if !slices.Equal(names, []string{"f4", "f5", "large"}) || hint[sandbox.HintSkipped](result).Count != 3 {
		t.Errorf("left out %v, hints %+v", names, result.Hints)
	}
	r.Request.Return = sandbox.Return{Globs: []string{"*"}, MaxBytes: 20}
	if result = s.run(t, r); len(result.Files) != 2 || len(result.Skipped) != 4 {
		t.Errorf("under a total of 20 bytes: %d files, %d left out", len(result.Files), len(result.Skipped))
	}
}

func testIrregularFiles(t *testing.T, s *suite) {
	r := sh(`ln -s /etc/passwd link; ln -s . loop; ln -s /proc/self/environ env; mkfifo pipe; mkdir folder folder/locked
		echo x > folder/locked/in; chmod 0 folder/locked
		ln fine hard 2>/dev/null; echo fine > fine; ln fine hard; ln -s fine inside
		echo shut > shut; chmod 0 shut`)
	r.Request.Return.Globs = []string{"**"}
	result := s.run(t, r)
	wantStatus(t, result, sandbox.StatusSucceeded)
	got := byPath(result)
	if got["fine"] != "fine\n" || got["hard"] != "fine\n" {
		t.Errorf("files %q", got)
	}
	reasons := map[string]string{}
	for _, l := range result.Skipped {
		reasons[l.Path] = l.Reason
	}
	for _, name := range []string{"link", "loop", "env", "pipe", "inside"} {
		if _, handed := got[name]; handed || reasons[name] == "" {
			t.Errorf("%s: handed back %v, reason %q", name, handed, reasons[name])
		}
	}
}

func testHostileNames(t *testing.T, s *suite) {
	r := sh(`touch -- -rf $'new\nline' $'bad\xff\xfe' '*' '"quote"' $'\e[31mred' ' ' 'a;b' '$(x)' $'tab\t' '..x' 'ü'`)
	r.Request.Return.Globs = []string{"**"}
	result := s.run(t, r)
	wantStatus(t, result, sandbox.StatusSucceeded)
	want := map[string]string{}
	for _, name := range []string{"-rf", "new\nline", "bad\xff\xfe", "*", `"quote"`, "\x1b[31mred", " ", "a;b", "$(x)",
		"tab\t", "..x", "ü"} {
		want[name] = ""
	}
	wantFiles(t, result, want)
	long := strings.Repeat("n", 255)
	r = sh("touch " + long + "; mkdir " + strings.Repeat("d/", 60) + " -p; touch " + strings.Repeat("d/", 60) + "f")
	r.Request.Return.Globs = []string{"**"}
	wantFiles(t, s.run(t, r), map[string]string{long: "", strings.Repeat("d/", 60) + "f": ""})
}

func testSparseGiant(t *testing.T, s *suite) {
	r := sh("truncate -s 1T giant 2>/dev/null || truncate -s 90M giant; echo ok > small")
	r.Request.Return.Globs = []string{"*"}
	result := s.run(t, r)
	wantFiles(t, result, map[string]string{"small": "ok\n"})
	if len(result.Skipped) != 1 || result.Skipped[0].Path != "giant" {
		t.Errorf("left out %+v", result.Skipped)
	}
}

func testHostDirectory(t *testing.T, s *suite) {
	dir := hostDir(t)
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("host"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := code("cat data; echo made > made; pwd; echo $0")
	r.Spec.Workspace = dir
	r.Request.Return.Globs = []string{"**"}
	result := s.run(t, r)
	wantOutput(t, result, "host/workspace\n/tmp/main.sh\n")
	wantFiles(t, result, map[string]string{"made": "made\n"})
	entries, err := os.ReadDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	if !slices.Equal(names, []string{"data", "made"}) {
		t.Errorf("the directory holds %v", names)
	}
	info, err := os.Stat(filepath.Join(dir, "made"))
	if err != nil {
		t.Fatal(err)
	}
	own, err := os.Stat(filepath.Join(dir, "data"))
	if err != nil {
		t.Fatal(err)
	}
	if ownerOf(info) != ownerOf(own) {
		t.Errorf("what was made belongs to user %d, not to %d like the directory", ownerOf(info), ownerOf(own))
	}
	for _, bad := range []string{dir + "/nowhere", dir + "/data", "relative", "/", dir + "/../" + filepath.Base(dir)} {
		r := sh("true")
		r.Spec.Workspace = bad
		if _, err := s.engine.Run(within(t), r); err == nil {
			t.Errorf("workspace %s is accepted", bad)
		}
	}
}

func testMount(t *testing.T, s *suite) {
	dir := hostDir(t)
	if err := os.WriteFile(filepath.Join(dir, "data"), []byte("host\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	r := sh("cat /mnt/data/data; echo x > /mnt/data/new || echo refused; echo x > /mnt/data/data || echo refused")
	r.Spec.Mounts = []sandbox.Mount{{Source: dir, Target: "/mnt/data"}}
	wantOutput(t, s.run(t, r), "host\nrefused\nrefused\n")
	if left, _ := os.ReadDir(dir); len(left) != 1 {
		t.Errorf("the read-only mount holds %d files", len(left))
	}
	// The path could change between the check and the open.
	if err := errors.Join(os.Mkdir(dir+"/folder", 0o755), os.Symlink(dir, dir+"/link")); err != nil {
		t.Fatal(err)
	}
	for _, through := range []string{dir + "/link", dir + "/link/folder"} {
		r.Spec.Mounts[0].Source = through
		if _, err := s.engine.Run(within(t), r); err == nil {
			t.Errorf("a mount of %s is accepted", through)
		}
	}
}

func testTooMuchIn(t *testing.T, s *suite) {
	r := sh("true")
	r.Spec.Limits.DiskBytes = 4 << 20
	r.Request.Files = []sandbox.File{{Path: "a", Data: make([]byte, 8<<20)}}
	_, err := s.engine.Run(within(t), r)
	if sandbox.KindOf(err) != sandbox.TooLarge || !strings.Contains(fmt.Sprint(err), "4MiB") {
		t.Errorf("8 MiB into 4 MiB of disk: %v", err)
	}
}
