//go:build unix

package python_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/python"
)

// TestLines runs programs with and without the script that buffers lines. In a want, "|" marks the end of a write.
func TestLines(t *testing.T) {
	interpreter, err := exec.LookPath("python3")
	if err != nil {
		t.Skip("this machine lacks Python")
	}
	folder := t.TempDir()
	script := filepath.Join(folder, filepath.Base(python.Language.Lines.Path))
	if err := os.WriteFile(script, []byte(python.Language.Lines.Script), 0o600); err != nil {
		t.Fatal(err)
	}
	// The state that a program can see, except what the script is for.
	const state = "import os, sys, traceback\n" +
		"print(sys.path, sys.orig_argv, sorted(sys.modules), sys.flags, sorted(globals()), sys._getframe().f_back)\n" +
		"print(dict(os.environ), sorted(sys.path_importer_cache), sys.stdout.encoding, sys.stdout.errors)\n"
	const killed = "\nimport os; os.kill(os.getpid(), 9)\n"
	for name, c := range map[string]struct{ code, env, same, want string }{
		"state":     {code: state, same: "yes"},
		"path":      {code: state, env: "PYTHONPATH=/nowhere:/tmp", same: "yes"},
		"traceback": {code: "def f(): 1/0\nf()", same: "yes"},
		"end":       {code: "print(1, end='')", same: "yes"},
		"exit":      {code: "print(1, end='')\nraise SystemExit(2)", same: "yes"},
		"closed":    {code: "import sys\nsys.stdout.close()", same: "yes"},
		"print":     {code: "print('a', 1)\nprint('b', 2)", want: "a 1\n|b 2\n|"},
		"killed":    {code: "print('a', 1)\nprint('b', end='')" + killed, want: "a 1\n|"},
		"flushed":   {code: "print('a', end='', flush=True)" + killed, want: "a|"},
		"prompt":    {code: "try: input('name? ')\nexcept EOFError: pass" + killed, want: "name? |"},
		"progress":  {code: "for i in range(2): print(end=f'\\r{i}%')" + killed, want: "\r0%|\r1%|"},
		"bytes":     {code: "import sys\nsys.stdout.buffer.write(b'a')" + killed, want: "a|"},
		"error":     {code: "import sys\nsys.stderr.write('a')\nsys.stderr.write('b\\n')" + killed, want: "ab\n|"},
		"interleaved": {code: "import sys\nfor i in range(2): print(i); print(i, file=sys.stderr)",
			want: "0\n|0\n|1\n|1\n|"},
		"unbuffered": {code: "print('a', end='')" + killed, env: "PYTHONUNBUFFERED=1", want: "a|"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			file := filepath.Join(t.TempDir(), "main.py")
			if err := os.WriteFile(file, []byte(c.code), 0o600); err != nil {
				t.Fatal(err)
			}
			env := []string{"PATH=" + os.Getenv("PATH"), "LANG=C.UTF-8", "HOME=/"}
			if c.env != "" {
				env = append(env, c.env)
			}
			prefix, rest := python.Language.Lines.Env[0], ""
			if value, ok := strings.CutPrefix(c.env, "PYTHONPATH="); ok {
				rest = ":" + value
			}
			if prefix != "PYTHONPATH="+filepath.Dir(python.Language.Lines.Path) {
				t.Fatal(prefix)
			}
			got := writes(t, append(env, "PYTHONPATH="+folder+rest), python.Language.Argv(interpreter, file))
			want := c.want
			if c.same != "" {
				want = strings.ReplaceAll(writes(t, env, python.Language.Argv(interpreter, file)), "|", "")
				got = strings.ReplaceAll(got, "|", "")
			}
			if got != want {
				t.Errorf("%q\nand not\n%q", got, want)
			}
		})
	}
}

// writes returns the output of a command, stdout and stderr, with a bar after each write.
func writes(t *testing.T, env, argv []string) string {
	pair, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_SEQPACKET|syscall.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	ours, theirs := pair[0], os.NewFile(uintptr(pair[1]), "theirs")
	defer syscall.Close(ours)
	defer theirs.Close()
	cmd := exec.Command(argv[0], argv[1:]...)
	cmd.Env, cmd.Dir, cmd.Stdout, cmd.Stderr = env, "/", theirs, theirs
	_ = cmd.Run() // some are killed, some fail
	var all strings.Builder
	buffer := make([]byte, 64<<10)
	for {
		n, _, err := syscall.Recvfrom(ours, buffer, syscall.MSG_DONTWAIT)
		if err != nil {
			break
		}
		if n > 0 { // without buffering, Python writes empty strings too
			all.Write(buffer[:n])
			all.WriteByte('|')
		}
	}
	return all.String()
}
