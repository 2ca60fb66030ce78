//go:build unix

package bash_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/lang/bash"
	"github.com/fumehood-dev/fumehood/test/langtest"
)

func outcome(o langtest.Outcome) string {
	text := o.Stdout
	if o.Exit != 0 {
		text += fmt.Sprintf("exit %d", o.Exit)
	}
	if o.Error != nil {
		text += " " + o.Error.Name
	}
	return text
}

// One context runs all of these, in order.
func TestDriverRuns(t *testing.T) {
	d := langtest.StartDriver(t, bash.Language, nil)
	for _, c := range [][2]string{
		{"a=1; f() { echo \"f $1 $a\"; }; cd /; list=(x 'y z'); declare -A map=([k]='v w'); alias hey='echo hey'; " +
			"set -- p 'q r'", ""},
		{"f 2; pwd; echo \"$2\"", "f 2 1\n/\nq r\n"},
		{"false", "exit 1"},
		{"echo $?; exit 3; echo no", "0\nexit 3"},
		{"f 3; pwd; echo \"${list[1]} ${map[k]}\"; trap 'echo bye; exit $?' EXIT; (exit 4); exit",
			"f 3 1\n/\ny z v w\nbye\nexit 4"},
		{"set -euo pipefail; shopt -s extglob expand_aliases; a=2", ""},
		{"g() { local b=1; false; echo no; }; g", "exit 1"},
		{"[[ $- == *e*u* ]] && hey; echo $a; echo $nope; echo no", "hey\n2\nexit 1"},
		{"set +eu; shopt -q extglob && echo still; if", "exit 2 syntax error"},
		{"set +eu; shopt -q extglob && echo still", "still\n"},
		{"grep", "exit 2"},
		{"for i in 1 2; do break 9; done; echo no", ""},
		{"break; echo no", ""},
		{"IFS=0123456789; echo ok; sleep 0.1 &", "ok\n"},
		{"read line || echo none; cat", "none\n"},
		{"read() { echo mine; }; printf() { :; }; eval() { :; }; builtin() { :; }; command() { :; }; exec() { :; " +
			"}; local() { :; }; set() { :; }", ""},
		{"read; echo \"$a\"", "mine\n2\n"},
		{"unset -f read printf eval command exec local set; exec 10>&1 5>&1 >/dev/null; echo lost; echo kept >&10",
			"kept\n"},
		{"echo lost; exec >&10 10>&-; echo back", "back\n"},
		{"echo $'ä\\x01'; a=ä; echo \"${#a}\"", "ä\x01\n1\n"},
	} {
		o := d.Run(c[0])
		if got := outcome(o); got != c[1] {
			t.Errorf("%s\n got %q %q\nwant %q", c[0], got, o.Stderr, c[1])
		}
	}
}

// The trace of set -x, and messages, show the code only.
func TestDriverStderr(t *testing.T) {
	d := langtest.StartDriver(t, bash.Language, nil)
	got := ""
	for _, code := range []string{"set -x\necho a", "echo b", "echo c; exit 1", "echo d; set +x"} {
		got += d.Run(code).Stderr
	}
	if got != "++ echo a\n++ echo b\n++ echo c\n++ exit 1\n++ echo d\n++ set +x\n" {
		t.Errorf("%q", got)
	}
	if o := d.Run("true\nnope_nope"); o.Stderr != "bash: line 2: nope_nope: command not found\n" || o.Exit != 127 {
		t.Errorf("%+v", o)
	}
	o := d.Run("echo one\necho )")
	if o.Error == nil || !strings.Contains(o.Error.Value, "near unexpected token") ||
		!strings.Contains(o.Error.Traceback, "line 2") || o.Exit != 2 || o.Stderr == "" {
		t.Errorf("%+v %+v", o, o.Error)
	}
}

// SIGINT ends each of these; the code has printed a line by then. State stays.
func TestDriverInterrupt(t *testing.T) {
	d := langtest.StartDriver(t, bash.Language, nil)
	d.Run("state=41")
	for name, wait := range map[string]string{
		"loop":     "echo; while :; do :; done",
		"sleep":    "sh -c 'echo; exec sleep 600'; echo no",
		"function": "f() { local mine=1; sh -c 'echo; exec sleep 600'; }; f; echo no",
		"pipe":     "sh -c 'echo; exec sleep 600' | cat; echo no",
		"wait":     "sleep 600 & echo; wait; echo no",
	} {
		t.Run(name, func(t *testing.T) {
			d.Interrupt() // between two runs: nothing
			d.Start(wait)
			d.Printed(1)
			d.Interrupt()
			if o := d.Wait(); outcome(o) != "\nexit 130" {
				t.Errorf("%+v", o)
			}
			if o := d.Run("echo $((state + 1))"); outcome(o) != "42\n" {
				t.Errorf("after it: %+v", o)
			}
		})
	}
}

func TestDriverLarge(t *testing.T) {
	d := langtest.StartDriver(t, bash.Language, nil)
	for _, c := range [][2]string{
		{"x='" + strings.Repeat("ä", 1<<20) + "'; echo ${#x}", "1048576\n"}, {"y=1; exit 7", "exit 7"},
		{"echo ${#x} $y", "1048576 1\n"},
	} {
		if o := d.Run(c[0]); outcome(o) != c[1] {
			t.Errorf("%.30s: %.200q %.200q", c[0], outcome(o), o.Stderr)
		}
	}
}

func TestDriverComplete(t *testing.T) {
	d := langtest.StartDriver(t, bash.Language, nil)
	d.Run("my_function() { :; }; touch afile")
	for code, want := range map[string]string{"echo ä $HOM": "HOME", "true; my_f": "my_function", "cat afi": "afile"} {
		start, names := d.Complete(code+" rest", len(code))
		if !slices.Contains(names, want) || !strings.HasPrefix(want, code[start:]) {
			t.Errorf("%s: %d %v", code, start, names)
		}
	}
	d.Hangup()
	d.Ended()
}
