package lang

import (
	"slices"
	"testing"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
)

// failures are ends of stderr as the toolchains write them, with the expected name and value of the exception, and the
// expected name in the hint.
var failures = []struct{ language, stderr, name, value, hint string }{
	{"ruby", "main.rb:3:in `open': cannot load such file -- nokogiri (LoadError)\n\tfrom main.rb:1:in `<main>'\n",
		"LoadError", "cannot load such file -- nokogiri", "nokogiri"},
	{"ruby", "main.rb:1:in 'Integer#/': divided by 0 (ZeroDivisionError)\n\tfrom main.rb:1:in '<main>'\n",
		"ZeroDivisionError", "divided by 0", ""},
	{"ruby", "a line: (Nothing)\n", "", "", ""},
	{"perl", "Can't locate JSON/XS.pm in @INC (you may need to install the JSON::XS module) (@INC contains: " +
		"/etc/perl) at main.pl line 1.\nBEGIN failed--compilation aborted at main.pl line 1.\n",
		"error", "Can't locate JSON/XS.pm in @INC (you may need to install the JSON::XS module) (@INC contains: " +
			"/etc/perl) at main.pl line 1.", "JSON::XS"},
	{"perl", "syntax error at main.pl line 1, near \"= =\"\nExecution of main.pl aborted due to compilation errors.\n",
		"syntax error", "syntax error at main.pl line 1, near \"= =\"", ""},
	{"php", "PHP Parse error:  syntax error, unexpected token \"=\" in /workspace/main.php on line 1\n", "Parse error",
		"syntax error, unexpected token \"=\"", ""},
	{"lua", "lua5.4: main.lua:1: module 'socket' not found:\n\tno field package.preload['socket']\n", "error",
		"module 'socket' not found:", "socket"},
	{"r", "Error in library(dplyr) : there is no package called ‘dplyr’\nExecution halted\n", "Error",
		"there is no package called ‘dplyr’", "dplyr"},
	{"r", "Error in a_function_of_a_long_name(1, 2, 3) : \n  it is bad\nCalls: f -> g\nExecution halted\n", "Error",
		"it is bad", ""},
	{"java", "Main.java:1: error: package org.json does not exist\nimport org.json.JSONObject;\n^\n1 error\nerror: " +
		"compilation failed\n", "compilation failed", "package org.json does not exist", "org.json"},
	{"java", "Main.java:1: error: ';' expected\n1 error\nerror: compilation failed\n", "compilation failed",
		"';' expected", "java"},
	{"java", "Exception in thread \"main\" java.lang.RuntimeException: two\nlines\n\tat Main.main(Main.java:3)\n" +
		"Caused by: x\n", "java.lang.RuntimeException", "two\nlines", ""},
	{"go", "panic: runtime error: index out of range [2] with length 0\n\ngoroutine 1 [running]:\nmain.main()\n",
		"panic", "runtime error: index out of range [2] with length 0", ""},
	{"go", "fatal error: all goroutines are asleep - deadlock!\n\ngoroutine 1 [chan receive]:\n", "fatal error",
		"all goroutines are asleep - deadlock!", ""},
	{"go", "main.go:3:8: no required module provides package github.com/x/y: go.mod file not found\n", "", "",
		"github.com/x/y"},
	{"rust", "\nthread 'main' (12) panicked at src/main.rs:2:5:\nit is\nbad\nnote: run with `RUST_BACKTRACE=1`\n",
		"panic", "it is\nbad", ""},
	{"rust", "error[E0463]: can't find crate for `serde`\n --> main.rs:1:1\n", "", "", "serde"},
	{"c", "main.c:1:10: fatal error: curl/curl.h: No such file or directory\n", "", "", "curl/curl.h"},
}

func TestFailures(t *testing.T) {
	for _, f := range failures {
		for _, l := range All() {
			if l.Name != f.language {
				continue
			}
			name, value, hints := "", "", []string{}
			if l.ParseError != nil {
				if e := l.ParseError([]byte(f.stderr)); e != nil {
					name, value = e.Name, e.Value
				}
			}
			if l.Diagnose != nil {
				for _, h := range l.Diagnose(f.stderr) {
					hints = append(hints, h.Name)
				}
			}
			if name != f.name || value != f.value || !slices.Contains(append(hints, ""), f.hint) ||
				f.hint == "" && len(hints) > 0 {
				t.Errorf("%s: %q: got %q, %q and %q", f.language, f.stderr, name, value, hints)
			}
		}
	}
}

func FuzzFailures(f *testing.F) {
	for _, example := range failures {
		f.Add([]byte(example.stderr))
	}
	f.Fuzz(func(t *testing.T, stderr []byte) {
		for _, l := range All() {
			if l.Diagnose != nil {
				l.Diagnose(string(stderr))
			}
			if l.ParseError == nil {
				continue
			}
			e := l.ParseError(stderr)
			if e == nil {
				continue
			}
			if e.Name == "" || len(e.Name) > trace.MaxName || len(e.Value) > trace.MaxValue ||
				len(e.Traceback) > trace.MaxTraceback {
				t.Errorf("%s: out of bounds: %d %d %d", l.Name, len(e.Name), len(e.Value), len(e.Traceback))
			}
			if !utf8.ValidString(e.Name + e.Value + e.Traceback) {
				t.Errorf("%s: not UTF-8", l.Name)
			}
		}
	})
}
