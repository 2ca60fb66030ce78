// Command glovebox runs code that nobody has read, and hands back what it printed, what it made and what it cost.
//
// Only this package and the module's root read flags, variables and configuration; all else is handed values.
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"github.com/spf13/cobra"
)

func main() {
	interrupts := make(chan os.Signal, 2)
	for _, s := range []os.Signal{os.Interrupt, syscall.SIGTERM, syscall.SIGHUP} {
		if !signal.Ignored(s) { // as nohup does
			signal.Notify(interrupts, s)
		}
	}
	// A reader of our output that goes away shows as a failed write, which ends the sandbox; the signal would end only us.
	signal.Notify(make(chan os.Signal, 1), syscall.SIGPIPE)
	cobra.EnableCommandSorting = false // help shows run first
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
