package python

import (
	"embed"
	"path"
	"strings"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// driverSource holds core.py, which is compiled at the start of a context, and its parts, which are compiled when they are first needed.
//
//go:embed driver/*.py
var driverSource embed.FS

// bootstrap leaves no name in __main__. The driver has its own copy of the builtins, so code that changes them harms only itself.
const bootstrap = `exec(compile(__import__("sys").argv[1], "<glovebox>", "exec"), ` +
	`{"__name__": "glovebox", "__builtins__": dict(vars(__import__("builtins")))})`

var contexts = &sandbox.Driver{
	Argv: driverArgv,
	// Without a display, matplotlib must not look for one.
	Env: []string{"MPLBACKEND=agg"},
}

// driverArgv passes the source as arguments, so no file is written in the sandbox: core.py, then the name and the text of each part. One
// argument may have 128 KiB (MAX_ARG_STRLEN in execve(2)).
func driverArgv(program string) []string {
	argv := []string{program, "-c", bootstrap, ""}
	entries, err := driverSource.ReadDir("driver")
	if err != nil {
		panic(err) // the folder is embedded
	}
	for _, entry := range entries {
		text, err := driverSource.ReadFile(path.Join("driver", entry.Name()))
		if err != nil {
			panic(err)
		}
		if name := strings.TrimSuffix(entry.Name(), ".py"); name == "core" {
			argv[3] = string(text)
		} else {
			argv = append(argv, name, string(text))
		}
	}
	return argv
}
