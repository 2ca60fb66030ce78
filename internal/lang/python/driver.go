package python

import (
	"bytes"
	"compress/zlib"
	"embed"
	"encoding/base64"
	"errors"
	"maps"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// driverSource holds base.py and core.py, which are compiled at the start of a context, run.py, which is compiled
// before
// the first request arrives, once.py for a single run, and parts that are compiled at their first use.
//
//go:embed driver/*.py
var driverSource embed.FS

// bootstrap defines no name in __main__. The driver has its own copy of the builtins, so code that changes them affects
// only itself.
const bootstrap = `exec(compile(__import__("sys").argv[1], "<fumehood>", "exec"), ` +
	`{"__name__": "fumehood", "__builtins__": dict(vars(__import__("builtins")))})`

// contexts keeps an interpreter alive between runs. The code runs as __main__, as if all runs were one program, with
// these differences:
//
//   - The value of the last expression is a result, unless it is None or followed by ";". The name _ keeps it.
//     display() adds results. A result has all forms of the value, richest first and text/plain last. Each figure of
//     matplotlib is one result.
//   - Code may await at the top level. One event loop serves all runs.
//   - Code that is not valid Python may have notebook syntax: magics, "!command", "x = !command", "name?". _exit_code
//     keeps the exit code of a command. IPython.display and get_ipython exist, also where IPython is not installed.
//   - inspect finds the source of classes too, and processes of multiprocessing that do not fork get the definitions.
//   - stdout is line-buffered, so output streams. There is no input.
//   - A timer (setitimer, alarm) and a handler of SIGINT end with the run that set them.
//   - sys.meta_path begins with a finder of the driver, and builtins has display, get_ipython and __notebook__. A
//     call stack has frames of the driver, a traceback has none.
//
// Measured with Python 3.11 on 2 cores: a context is ready in 1.1 times the time of "python3 -c pass" (11 ms, the
// minimum of 80), with 4.7 MiB of private memory; an idle interpreter has 2.7 MiB. A run of "x = 1" takes 25
// microseconds. The first exception takes 10 ms, to import traceback. The oldest supported version is Python 3.9.
var contexts = &sandbox.Driver{
	Argv: driverArgv,
	// A sandbox has no display for matplotlib.
	Env:   []string{"MPLBACKEND=agg"},
	Calls: true, State: true,
}

// plainParts are the parts that many runs of contexts need. The others are packed.
var plainParts = []string{"failures", "limits", "run", "values"}

// driverParts has the parts of the driver by name, without comments and blank lines.
var driverParts = sync.OnceValue(func() map[string]string {
	parts := map[string]string{}
	entries, err := driverSource.ReadDir("driver")
	if err != nil {
		panic(err) // the folder is embedded
	}
	for _, entry := range entries {
		text, err := driverSource.ReadFile(path.Join("driver", entry.Name()))
		if err != nil {
			panic(err)
		}
		var lines strings.Builder
		for line := range strings.Lines(string(text)) {
			if line := strings.TrimSpace(line); line == "" || line[0] == '#' {
				continue
			}
			code := strings.TrimLeft(line, " ")
			indent := len(line) - len(code)
			lines.WriteString(strings.Repeat("\t", indent/4) + strings.Repeat(" ", indent%4) + code)
		}
		parts[strings.TrimSuffix(entry.Name(), ".py")] = lines.String()
	}
	return parts
})

// driverArgv passes the source as arguments instead of files: the driver itself, then laterParts. An argument has at
// most 128 KiB (MAX_ARG_STRLEN in execve(2)).
func driverArgv(program string) []string {
	return append([]string{program, "-c", bootstrap, driverParts()["base"] + driverParts()["core"]}, laterParts()...)
}

// laterParts has the name and the text of each part that is compiled at its first use. The last one holds the packed
// parts. An interpreter decodes 40 KiB of arguments in a millisecond.
var laterParts = sync.OnceValue(func() (words []string) {
	var names, rare []string
	for _, name := range slices.Sorted(maps.Keys(driverParts())) {
		switch text := driverParts()[name]; {
		case slices.Contains(plainParts, name):
			words = append(words, name, text)
		case name != "base" && name != "core" && name != "once":
			names, rare = append(names, name), append(rare, name, text)
		}
	}
	var packed bytes.Buffer
	w, err := zlib.NewWriterLevel(&packed, zlib.BestCompression)
	if err == nil {
		_, err = w.Write([]byte(strings.Join(rare, "\x00")))
	}
	if err = errors.Join(err, w.Close()); err != nil {
		panic(err) // the buffer takes all
	}
	return slices.Clip(append(words, "packed", strings.Join(names, ",")+":"+
		base64.StdEncoding.EncodeToString(packed.Bytes())))
})

// displays matches code that may need the driver: notebook syntax, modules of IPython, and charts. It also matches some
// other code, which runs the same way there, and starts some milliseconds later. Such code has one of displayWords.
var displays = trace.Pattern(`(?m)^(?:\x{feff})?[ \t]*(?:[%!?]|(?:pip3?|conda|uv pip) install |[\pL_][^=\n]*=[ ` +
	`\t]*[%!])|\?[ \t]*\r?$|` +
	`\b(?:IPython|get_ipython|matplotlib|seaborn|pylab|webbrowser)\b|\bdisplay\(|\.show\(`)

var displayWords = [][]byte{[]byte("%"), []byte("!"), []byte("?"), []byte("ython"), []byte("display("),
	[]byte(".show("),
	[]byte("matplotlib"), []byte("seaborn"), []byte("pylab"), []byte("webbrowser"), []byte(" install ")}

// cell returns the command line for code that needs the driver, or nil.
func cell(code []byte) func(program, path string) []string {
	found := func(word []byte) bool { return bytes.Contains(code, word) }
	if len(code) > maxCode || !slices.ContainsFunc(displayWords, found) || !displays().Match(code) {
		return nil
	}
	return func(program, path string) []string {
		parts := laterParts()
		return slices.Concat([]string{program, "-u", "-c", bootstrap, driverParts()["base"] + driverParts()["once"],
			path,
			strconv.Itoa(len(parts) / 2)}, parts)
	}
}
