package python

import (
	"embed"
	"path"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// driverSource holds core.py, which is compiled at the start of a context; run.py, which is compiled while the first request is on its way;
// and parts that are compiled when they are first needed.
//
//go:embed driver/*.py
var driverSource embed.FS

// bootstrap leaves no name in __main__. The driver has its own copy of the builtins, so code that changes them harms only itself.
const bootstrap = `exec(compile(__import__("sys").argv[1], "<fumehood>", "exec"), ` +
	`{"__name__": "fumehood", "__builtins__": dict(vars(__import__("builtins")))})`

// contexts keeps an interpreter alive between executions. For the code it is __main__ of an interpreter of its own, as if all runs were one
// program, but for these:
//
//   - The value of the last expression is shown, unless it is None or a ";" follows; the name _ keeps it. display() shows more. A value
//     comes in all forms that it has, richest first and text/plain last; figures of matplotlib come once each.
//   - Code may await at the top level. One event loop serves all runs.
//   - A line "!command" or "%pip ..." runs in the shell, but only in code that is no Python as it is. _exit_code keeps its exit code.
//   - stdout is line-buffered, so output streams. There is no input.
//   - A timer of the code (setitimer, alarm) ends with the run, and so does its handler of SIGINT.
//   - sys.meta_path begins with a finder of the driver's, and builtins has display and __shell__. A call stack shows frames of the driver,
//     tracebacks do not.
//
// Measured with Python 3.11 on 2 cores: ready in 1.1 times the time of "python3 -c pass" (11 ms, the least of 80), with 4.7 MiB of private
// memory against 2.7 MiB of a bare interpreter that sleeps. A run of "x = 1" takes 25 microseconds. The first exception costs 10 ms, for
// package traceback. Python 3.9 is the oldest that works.
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
