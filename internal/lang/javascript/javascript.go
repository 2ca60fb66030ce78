// Package javascript is JavaScript on Node as a language of Fumehood.
package javascript

import (
	_ "embed"
	"fmt"

	"github.com/fumehood-dev/fumehood/sandbox"
)

//go:embed survey_root.js
var rootSurvey string

const (
	scriptFile = "main.js"
	moduleFile = "main.mjs"
)

// leastPids is the number of threads at the start of Node: its main thread, four workers and the timer of V8, and the
// inspector. With fewer, Node waits forever (tried with Node 20 and 3 to 6).
const leastPids = 7

const userPrefix = sandbox.Home + "/.local"

// The heap of old objects has three quarters of the memory, less what Node needs besides. With less than leastHeap,
// Node does not start. A program that fills its heap so reports it, from 128 MiB of memory (tried with Node 20).
const (
	heapShare  = 75 // percent
	besideHeap = 24 // MiB
	leastHeap  = 16 // MiB
)

// Language is JavaScript. The extension .cjs or .mjs selects a CommonJS script or a module. For code without a file
// name, its content does. Node does not buffer output to pipes, so a killed program loses no output.
var Language = sandbox.Language{
	Name:       "javascript",
	Title:      "JavaScript (Node)",
	Aliases:    []string{"js", "node", "nodejs"},
	Extensions: []string{".js", ".mjs", ".cjs"},
	FileName:   scriptFile,
	Programs:   []string{"node", "nodejs"},
	LeastPids:  leastPids,
	Argv: func(program, path string) []string {
		return []string{program, path}
	},
	Cell: cell,
	NameFor: func(code []byte) string {
		if IsModule(code) {
			return moduleFile
		}
		return scriptFile
	},
	// npm install -g puts programs into ~/.local/bin.
	Online: []string{"npm_config_prefix=" + userPrefix, "NODE_PATH=" + userPrefix + "/lib/node_modules",
		"npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false"},
	// V8 cannot see the limits and would take up to 4 GiB.
	Sized: func(l sandbox.Limits) []string {
		heap := max(l.MemoryBytes>>20*heapShare/100-besideHeap, leastHeap)
		return []string{fmt.Sprintf("NODE_OPTIONS=--max-old-space-size=%d", heap)}
	},
	Installers: []string{"npm", "npx", "yarn", "pnpm"},
	// By default npm tries each server three times, for more than a minute. With these it fails after two seconds.
	Offline: []string{"npm_config_fetch_retries=0", "npm_config_audit=false", "npm_config_fund=false",
		"npm_config_update_notifier=false"},
	ModulePath: "NODE_PATH",
	Installer:  Installer,
	ParseError: ParseError,
	Diagnose:   symptoms.Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install nodejs", Image: "node:22-slim"},
	Probe:      "console.log(6*7)\n",
	Survey:     rootSurvey,
	Driver:     driver,
}
