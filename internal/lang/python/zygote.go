package python

import (
	_ "embed"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// zygote runs with full privileges over unused sandboxes, so isolation depends on it as much as on the Go code.
//
//go:embed zygote.py
var zygote string

// earlyEnd defines the zygote's function that lets its forks end early.
//
//go:embed earlyend.py
var earlyEnd string

// readAtStart lists prefixes of variables that are read before the program starts: by the interpreter, its memory
// allocator and the dynamic linker, for the locale, the time zone, and the locations of user modules and of the
// interpreter.
var readAtStart = []string{"PYTHON", "LD_", "GLIBC_", "MALLOC_", "LC_", "LANG", "TZ", "HOME", "PATH"}

// begin is the end of both scripts below: it takes the program, and lets it begin.
//
//go:embed begin.py
var begin string

// park is the script of an interpreter that waits in its sandbox.
//
//go:embed park.py
var park string

const (
	zygoteDir = "/run/fumehood"
	parkDir   = "/tmp/fumehood" // gone when the program begins
)

var warm = &sandbox.Zygote{
	Startup: sandbox.Startup{
		Path:   zygoteDir + "/sitecustomize.py",
		Script: earlyEnd + zygote + begin,
		Env: []string{
			"PYTHONPATH=" + zygoteDir,
			// Otherwise a fork keeps an rseq area that is not registered with the kernel (rseq(2)).
			"GLIBC_TUNABLES=glibc.pthread.rseq=0",
		},
	},
	Parked: sandbox.Startup{
		Path:   parkDir + "/sitecustomize.py",
		Script: park + begin,
		Env:    []string{"PYTHONPATH=" + parkDir},
	},
	Sensitive: readAtStart,
}
