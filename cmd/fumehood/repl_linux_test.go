package main

import (
	"bytes"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// TestReplOfPipe: code from a pipe runs piece by piece in one interpreter, and the last piece decides the exit code.
func TestReplOfPipe(t *testing.T) {
	isNativeReady(t)
	for _, test := range []struct {
		language, code string
		exit           int
		stdout, stderr string
	}{
		{"python", "x = 6*7\nfor i in range(2):\n    print(i)\nx\nimport sys; print('problem', file=sys.stderr)", 0,
			"0\n1\n42\n", "problem\n"},
		{"javascript", "let a = {\n b: 2 }\na.b", 0, "2\n", ""},
		{"python", "class A:\n    a = 1\n\n    def b(self):\n        return self.a\n\nA().b()", 0, "1\n", ""},
		{"python", "x = 1\n%pip install a(b)\nx", 0, "1\n", "error: code: \"a(b)\" is not the name of a package"},
		{"bash", "cd /tmp\npwd\n(exit 3)", 3, "/tmp\n", ""},
		{"bash", "cat <<E\n\n\nhere $((1<<2))\nE\nfor i in a b\ndo echo $i; done", 0, "\n\nhere 4\na\nb\n", ""},
	} {
		in, typed, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := typed.WriteString(test.code); err != nil {
			t.Fatal(err)
		}
		typed.Close()
		defer in.Close()
		var out, errs bytes.Buffer
		m := testApp(t).Main
		m.Stdin, m.Stdout, m.Stderr = in, &out, &errs
		code := m.Run(t.Context(), []string{"repl", "--backend", "native", "--allow-unenforced", "memory", "--lang",
			test.language, "--quiet"})
		if code != test.exit || out.String() != test.stdout || !strings.HasPrefix(errs.String(), test.stderr) {
			t.Errorf("%s: exit code %d, %q and %q", test.language, code, &out, &errs)
		}
	}
}

// openTerminal returns the two ends of a pseudo-terminal (pty(7)).
func openTerminal(t *testing.T) (person, program *os.File) {
	person, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { person.Close() })
	if err := unix.IoctlSetPointerInt(int(person.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Skip(err)
	}
	n, err := unix.IoctlGetInt(int(person.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Skip(err)
	}
	if program, err = os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0); err != nil {
		t.Skip(err)
	}
	t.Cleanup(func() { program.Close() })
	return person, program
}

// typist types at the terminal of a repl.
type typist struct {
	t          *testing.T
	person     *os.File
	seen       *said
	interrupts chan os.Signal
	state      string
	exit       chan int
}

func startRepl(t *testing.T, args ...string) *typist {
	isNativeReady(t)
	person, program := openTerminal(t)
	r := &typist{t, person, &said{}, make(chan os.Signal, 1), t.TempDir(), make(chan int, 1)}
	go io.Copy(r.seen, person) // ends when the test closes the terminal
	m := testApp(t).Main
	m.Stdin, m.Stdout, m.Stderr, m.Interrupts = program, program, program, r.interrupts
	lookup := m.LookupEnv
	m.LookupEnv = func(name string) (string, bool) {
		if name == "XDG_STATE_HOME" {
			return r.state, true
		}
		return lookup(name)
	}
	go func() { r.exit <- m.Run(t.Context(), append([]string{"repl"}, args...)) }()
	return r
}

// at waits for what follows the last thing that was seen.
func (r *typist) at(want string) {
	r.t.Helper()
	r.seen.wait(r.t, want)
	r.seen.forget()
}

func (r *typist) enter(text string) {
	r.t.Helper()
	if _, err := r.person.WriteString(text); err != nil {
		r.t.Fatal(err)
	}
}

// leave ends the input and the repl.
func (r *typist) leave() {
	r.t.Helper()
	r.enter("\x04")
	select {
	case code := <-r.exit:
		if code != 0 {
			r.t.Errorf("exit code %d: %s", code, r.seen)
		}
	case <-time.After(stepTimeout):
		r.t.Fatalf("it does not end; it says %s", r.seen)
	}
}

// TestReplOnTerminal types at a terminal: completion, Control-C in a line and in code, history.
func TestReplOnTerminal(t *testing.T) {
	r := startRepl(t, "--backend", "native", "--allow-unenforced", "memory")
	at, enter := r.at, r.enter
	at(`>>> $`)
	enter("import os\r")
	at(`>>> $`)
	enter("os.getcw\t")
	at(`os\.getcwd$`)
	enter("()\r")
	at(`(?s)'/workspace'.*>>> $`)
	enter("\x1b[200~def f():\r    a = 5\r\r    return a\r\rf()\x1b[201~") // a paste
	at(`f\(\)$`)
	enter("\r")
	at(`(?s)5\r\n.*>>> $`)
	enter("nonsense(\x03")
	at(`>>> $`)
	enter("for i in 'ab':\r")
	at(`\.\.\. $`)
	enter("    print(i * 3)\r")
	at(`\.\.\. $`)
	enter("\r")
	at(`(?s)aaa\r\nbbb\r\n.*>>> $`)
	enter("print('be' + 'gun'); __import__('time').sleep(60)\r")
	at(`begun\r\n`)
	r.interrupts <- os.Interrupt
	at(`(?s)KeyboardInterrupt.*>>> $`)
	r.leave()
	file := filepath.Join(r.state, "fumehood", "history-python")
	text, err := os.ReadFile(file)
	if err != nil || !strings.HasPrefix(string(text), "import os\nos.getcwd()\n") {
		t.Errorf("the history is %q, %v", text, err)
	}
	if info, err := os.Stat(file); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v, %v", info, err)
	}
}

// TestReplOfStubbornCode: a second Control-C ends code that ignores the first, and the next statement runs in a new
// interpreter. The output lacks the keys typed meanwhile; they begin the next line.
func TestReplOfStubbornCode(t *testing.T) {
	s := startServer(t, "--backend", "native", "--allow-unenforced", "memory")
	c := &commands{t, s.url}
	c.run(0, "", "create", "--name", "work", "--allow-unenforced", "memory")
	t.Cleanup(func() { c.run(0, "", "rm", "work") })
	for name, args := range map[string][]string{"own": {"--backend", "native", "--allow-unenforced", "memory"},
		"in": {"--server", s.url, "--in", "work"}} {
		t.Run(name, func(t *testing.T) {
			if name == "in" {
				backendtest.ForCheck(t, "the waits of the other case again")
			}
			r := startRepl(t, args...)
			r.at(`>>> $`)
			r.enter("import time\r")
			r.at(`>>> $`)
			r.enter("while 1:\r  try: time.sleep(60)\r  except KeyboardInterrupt: print('no' + 'pe')\r\r")
			r.at(`running for`)
			r.enter("6*")
			r.interrupts <- os.Interrupt
			r.at(`nope\r\n`)
			r.enter("7\r")
			r.at(`running for`)
			r.interrupts <- os.Interrupt
			shown := r.seen.wait(t, `(?s)(.*)>>> 6\*7\r\n[^>]*42\r\n[^>]*>>> $`)
			if strings.Contains(shown[1], "6*") || strings.Contains(shown[1], "7\r") ||
				!strings.Contains(shown[1], "variables") {
				t.Errorf("it shows %q", shown[1])
			}
			r.leave()
		})
	}
	c.prints("", "run", "--in", "work", "-c", "x = 'kept'")
	r := startRepl(t, "--server", s.url, "--in", "work")
	r.at(`python in the sandbox work; Control-D leaves it\S*\r\n\S*>>> $`)
	r.enter("x.isup\t")
	r.at(`x\.isupper$`)
	r.enter("()\r")
	r.at(`(?s)False.*>>> $`)
	r.leave()
	c.fails("keeps no variables between statements", "fumehood run -l ruby FILE", "repl", "-l", "ruby")
	c.fails("cannot change the sandbox work", "", "repl", "--in", "work", "--memory", "1GiB")
}
