// Package javascript is JavaScript on Node as a language of Fumehood.
package javascript

import (
	_ "embed"

	"github.com/fumehood-dev/fumehood/sandbox"
)

//go:embed inventory.js
var inventory string

const (
	scriptFile = "main.js"
	moduleFile = "main.mjs"
)

// leastPids is what Node starts with: its main thread, four workers and the timer of V8, and the inspector's. It waits for ever for one
// that it was refused (tried with Node 20 and 3 to 6).
const leastPids = 7

// Language is JavaScript. The content of code without a file name decides whether it is a CommonJS script or a module; otherwise the
// extension .cjs or .mjs does. Node writes to pipes at once, so a killed program loses no output.
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
	NameFor: func(code []byte) string {
		if IsModule(code) {
			return moduleFile
		}
		return scriptFile
	},
	Installers: []string{"npm", "npx", "yarn", "pnpm"},
	// Otherwise npm tries each server three times, for more than a minute; with these it gives up after two seconds.
	Offline:    []string{"npm_config_fetch_retries=0", "npm_config_audit=false", "npm_config_fund=false", "npm_config_update_notifier=false"},
	ModulePath: "NODE_PATH",
	Installer:  Installer,
	ParseError: ParseError,
	Diagnose:   Diagnose,
	Missing:    sandbox.Missing{Fix: "apt install nodejs", Image: "node:22-slim"},
	Probe:      "console.log(6*7)\n",
	Inventory:  inventory,
	Driver:     driver,
}
