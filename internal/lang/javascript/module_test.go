package javascript

import (
	"runtime"
	"strings"
	"testing"
)

var moduleTests = []struct {
	code string
	want bool
}{
	{"import fs from 'fs'", true},
	{"import{readFile}from'fs'", true},
	{"import * as fs from 'fs'", true},
	{"import 'x'", true},
	{"'use strict'; import 'x'", true},
	{"#!/usr/bin/env node\nimport 'x'", true},
	{"// note\n/* more */ import x from 'y'", true},
	{"const a = 1\nimport x from 'y'", true},
	{"export const a = 1", true},
	{"export default function () {}", true},
	{"function f() {}\nexport { f }", true},
	{"const here = import.meta.url", true},
	{"function f() { return import.meta.url }", true},
	{"await main()", true},
	{"const x = await fetch('y')", true},
	{"try { await main() } catch (e) { throw e }", true},
	{"if (x) { await y() }", true},
	{"for await (const x of y) { z(x) }", true},
	{"const f = async x => await g(x)\nawait f(1)", true},
	{"console.log(`a ${await f()} b`)", true},
	{"const f = async () => { await g() }; await f()", true},
	{"console.log(/[/'\"]/.test(x)); await y", true},
	{"a = b / c; await d; e = f / g", true},
	{"const fs = require('fs')\nawait f()", true},

	{"", false},
	{"console.log('import x from y')", false},
	{"console.log(\"export default 1\")", false},
	{"console.log(`\nimport x from 'y'\nexport default 1\n`)", false},
	{"// import x from 'y'\nconsole.log(1)", false},
	{"/*\nimport x from 'y'\n*/ console.log(1)", false},
	{"import('x').then(console.log)", false},
	{"const x = import('y')", false},
	{"exports.a = 1", false},
	{"module.exports = { export: 1, import: 2 }", false},
	{"a.import = 1; a.export = 2", false},
	{"async function f() { await g() }\nf()", false},
	{"const f = async () => { await g() }\nf()", false},
	{"const f = async x => await g(x)\nf(1)", false},
	{"const f = async x =>\n  await g(x)\nf(1)", false},
	{"const f = async x => g(await h(x)); f(1)", false},
	{"class A { async m() { await x } }\nnew A().m()", false},
	{"const o = { async m() { if (a) { await x } } }", false},
	{"(async () => { for (const x of y) { await z(x) } })()", false},
	{"(async function () { await x })()", false},
	{"const s = `${(async () => { await x })()} await`; f(s)", false},
	{"const r = /import x/; f(r)", false},
	{"x = 'it\\'s'\n// don't import\nf('export')", false},
}

func TestIsModule(t *testing.T) {
	for _, tt := range moduleTests {
		if got := IsModule([]byte(tt.code)); got != tt.want {
			t.Errorf("IsModule(%q) = %v", tt.code, got)
		}
	}
}

func FuzzIsModule(f *testing.F) {
	for _, tt := range moduleTests {
		f.Add([]byte(tt.code))
	}
	f.Fuzz(func(t *testing.T, code []byte) {
		got := IsModule(code)
		if again := IsModule(code); again != got {
			t.Error("the answer changes")
		}
		if name := Language.NameFor(code); got != (name == moduleFile) {
			t.Errorf("name %q", name)
		}
	})
}

// TestModuleCost: looking for modules keeps no tokens, of which long code has one for each byte.
func TestModuleCost(t *testing.T) {
	const size = 1 << 20
	code := []byte("import('x')" + strings.Repeat(";", size))
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	IsModule(code)
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4*size {
		t.Errorf("%d bytes were allocated for %d of code", got, size)
	}
}
