// Package php is PHP as a language of Fumehood.
package php

import (
	"strings"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Language is PHP on the command line, without the host's php.ini.
var Language = sandbox.Language{
	Name:       "php",
	Title:      "PHP",
	Extensions: []string{".php"},
	FileName:   "main.php",
	Programs:   []string{"php"},
	// By default PHP prints errors to stdout. The sandbox limits memory and time.
	Argv: func(program, path string) []string {
		return []string{program, "-d", "display_errors=stderr", "-d", "log_errors=0", "-d", "memory_limit=-1", path}
	},
	Installers: []string{"composer", "pecl"},
	ParseError: parseError,
	Missing:    sandbox.Missing{Fix: "apt install php-cli", Image: "php:8-cli"},
	Probe:      "<?php echo 6 * 7, \"\\n\";\n",
	Survey: `<?php
$modules = [];
foreach (get_loaded_extensions() as $name) $modules[] = ["name" => $name, "version" => phpversion($name) ?: ""];
echo json_encode(["version" => PHP_VERSION, "standard_library" => true, "modules" => $modules]), "\n";
`,
}

var (
	uncaught = trace.Pattern(`^(?:PHP )?Fatal error:\s+Uncaught ([\w\\]+)(?:: (.*))? in \S+:\d+$`)
	fatal    = trace.Pattern(`^(?:PHP )?(Fatal error|Parse error):\s+(.*?)(?: in \S+ on line \d+)?$`)
)

// parseError returns the last error that ended a program.
func parseError(stderr []byte) *sandbox.Exception {
	lines := trace.Lines(stderr)
	for i := len(lines) - 1; i >= 0; i-- {
		if !strings.Contains(lines[i], " error:") {
			continue
		}
		if m := uncaught().FindStringSubmatch(lines[i]); m != nil {
			return trace.Exception(m[1], []string{m[2]}, lines[i:])
		}
		if m := fatal().FindStringSubmatch(lines[i]); m != nil {
			return trace.Exception(m[1], []string{m[2]}, lines[i:])
		}
	}
	return nil
}
