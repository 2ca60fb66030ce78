// Package python is Python 3 as a language of Fumehood.
package python

import (
	_ "embed"
	"fmt"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

//go:embed survey_root.py
var rootSurvey string

// Language is Python 3.
//
// The interpreter gets only the option -u:
//
//   - Without -u, a program that a time or memory limit kills loses up to 8 KiB of buffered output, which could explain
//     the failure. An unbuffered print takes 4 microseconds instead of 0.3, measured with 100,000 of them into a pipe.
//     Line buffering takes 1.6 microseconds, but has no option or variable. Where system calls are expensive, Lines
//     selects it. Elsewhere a program that prints much can call sys.stdout.reconfigure(write_through=False,
//     line_buffering=True).
//   - -S would save 2.4 of 8.5 ms, but removes exit(), quit() and the system's dist-packages (numpy).
//   - -I and -P would hide modules sent with the code, and save nothing.
var Language = sandbox.Language{
	Name:       "python",
	Title:      "Python 3",
	Aliases:    []string{"py", "python3"},
	Extensions: []string{".py"},
	FileName:   "main.py",
	Programs:   []string{"python3"},
	Argv: func(program, path string) []string {
		return []string{program, "-u", path}
	},
	Cell:       cell,
	Installers: []string{"pip", "pip3", "conda", "uv", "poetry"},
	Apart: map[string]string{"tkinter": "python3-tk", "_tkinter": "python3-tk", "idlelib": "idle",
		"venv": "python3-venv", "ensurepip": "python3-venv", "distutils": "python3-distutils",
		"lib2to3": "python3-lib2to3", "_gdbm": "python3-gdbm"},
	// By default pip tries each server five times, for 8 seconds. With these it fails after one second, mostly its own
	// start.
	Offline: []string{"PIP_RETRIES=0", "PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1"},
	// An ordinary user installs into the user's folder, which Debian's marker of its own folders forbids too (PEP 668).
	// pip's cache would take as much of the disk limit as the packages.
	Online: []string{"PIP_BREAK_SYSTEM_PACKAGES=1", "UV_BREAK_SYSTEM_PACKAGES=1", "PIP_NO_CACHE_DIR=1",
		"PIP_NO_INPUT=1", "PIP_DISABLE_PIP_VERSION_CHECK=1"},
	UserFolder: func(interpreter string) string {
		if !strings.HasPrefix(interpreter, "python3.") {
			return ""
		}
		return ".local/lib/" + interpreter + "/site-packages" // sysconfig's scheme posix_user
	},
	// NumPy's OpenBLAS, MKL, PyTorch and numexpr start a thread for each CPU of the host otherwise. nproc(1) reads it
	// too.
	Sized: func(l sandbox.Limits) []string {
		return []string{fmt.Sprintf("OMP_NUM_THREADS=%d", l.CPUs()), fmt.Sprintf("POLARS_MAX_THREADS=%d", l.CPUs())}
	},
	ModulePath: "PYTHONPATH",
	ParseError: ParseError,
	Diagnose:   symptoms.Diagnose,
	Lines:      lines,
	Zygote:     warm,
	Installer:  installer,
	Missing:    sandbox.Missing{Fix: "apt install python3", Image: "python:3.12-slim"},
	Driver:     contexts,
	Probe:      "print(6*7)\n",
	Survey:     rootSurvey,
}
