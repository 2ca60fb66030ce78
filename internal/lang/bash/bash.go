// Package bash is Bash as a language of Fumehood.
package bash

import (
	_ "embed"

	"github.com/fumehood-dev/fumehood/sandbox"
)

//go:embed survey_root.sh
var rootSurvey string

// Language is Bash. Scripts read no start-up files, so it needs no options.
var Language = sandbox.Language{
	Name:       "bash",
	Title:      "Bash",
	Aliases:    []string{"sh", "shell"},
	Extensions: []string{".sh", ".bash"},
	FileName:   "main.sh",
	Programs:   []string{"bash"},
	Argv: func(program, path string) []string {
		return []string{program, path}
	},
	UnixLines:  true,
	ParseError: ParseError,
	Diagnose:   symptoms.Diagnose,
	Installer:  commands,
	Installers: []string{"apt", "apt-get", "dnf", "yum", "apk", "brew", "snap"},
	Missing:    sandbox.Missing{Fix: "apt install bash", Image: "debian:stable-slim"},
	Probe:      "echo $((6*7))\n",
	Survey:     rootSurvey,
	Driver:     driver,
}
