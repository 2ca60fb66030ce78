package python

import (
	_ "embed"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// zygote is executed with all rights over sandboxes that are not in use yet, so it is as much part of the walls as Go code is.
//
//go:embed zygote.py
var zygote string

// What of the environment is read before the program begins: by the interpreter, by its memory allocator and by the dynamic linker; the
// locale, which says how text is encoded; the time zone; where modules of the user lie, and the interpreter itself.
var readAtStart = []string{"PYTHON", "LD_", "GLIBC_", "MALLOC_", "LC_", "LANG", "TZ", "HOME", "PATH"}

const zygoteDir = "/run/glovebox"

var warm = &sandbox.Zygote{
	Path:   zygoteDir + "/sitecustomize.py",
	Script: zygote,
	Env: []string{
		"PYTHONPATH=" + zygoteDir,
		// A fork would be left with an area of restartable sequences that the kernel no longer keeps (rseq(2)).
		"GLIBC_TUNABLES=glibc.pthread.rseq=0",
	},
	Sensitive: readAtStart,
}
