// Package lua is Lua as a language of Fumehood.
package lua

import (
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Language is Lua.
var Language = sandbox.Language{
	Name:       "lua",
	Title:      "Lua",
	Extensions: []string{".lua"},
	FileName:   "main.lua",
	Programs:   []string{"lua5.4", "lua", "lua5.3", "luajit"},
	Argv:       func(program, path string) []string { return []string{program, path} },
	Installers: []string{"luarocks"},
	ParseError: parseError,
	Diagnose:   symptoms.Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install lua5.4"},
	Probe:      "print(6 * 7)\n",
	Survey: "print('{\"version\":\"' .. _VERSION:match('[%d.]+') .. " +
		"'\",\"standard_library\":true,\"modules\":[]}')\n",
}

var symptoms = trace.Symptoms{
	trace.On(sandbox.SymptomNoModule, `module '([^'\n]+)' not found:`),
	trace.With(sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitMemory},
		`(?m)^lua[\w.]*: not enough memory`),
}

var failed = trace.Pattern(`^lua[\w.]*: (?:\S+:\d+: )?(.*)$`)

// parseError returns the error that ended a program: "lua: FILE:LINE: MESSAGE", then its stack.
func parseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	for i := len(lines) - 1; i >= 0; i-- {
		if m := failed().FindStringSubmatch(lines[i]); m != nil {
			return trace.Exception("error", []string{m[1]}, lines[i:])
		}
	}
	return nil
}
