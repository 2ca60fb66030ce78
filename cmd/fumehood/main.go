//go:build !manpages

// Command fumehood runs untrusted code in a sandbox and returns its output, its files and its resource usage.
//
// Only this package and the module's root read flags, variables and configuration. All others get values.
package main

import (
	"context"
	"io"
	"log"
	"os"
	"os/signal"
	"runtime/debug"
	"syscall"

	"github.com/spf13/cobra"
)

// runGC lets the heap of a run grow to 16 MiB before the first garbage collection (GOGC). It usually ends before.
const runGC = 400

func main() {
	if len(os.Args) > 1 && os.Args[1] == "run" && os.Getenv("GOGC") == "" {
		debug.SetGCPercent(runGC)
	}
	log.SetOutput(io.Discard) // libraries print text from sandboxes and servers there
	interrupts := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // as nohup does
			signal.Notify(interrupts, s)
		}
	}
	// A lost reader of our output fails a write, which ends the sandbox too; the signal would end only us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	cobra.EnableCommandSorting = false // show run first
	self, _ = os.Executable()          // without it, a killed command leaves the terminal as it is
	m := Main{
		Stdin:      os.Stdin,
		Stdout:     os.Stdout,
		Stderr:     os.Stderr,
		LookupEnv:  os.LookupEnv,
		Environ:    os.Environ,
		Interrupts: interrupts,
		Exit:       os.Exit,
	}
	os.Exit(m.Run(context.Background(), os.Args[1:]))
}
