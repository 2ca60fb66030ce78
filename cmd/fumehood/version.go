package main

import (
	"fmt"
	"runtime"
	"runtime/debug"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// version is set by make build.
var version = ""

func (a *app) newVersion() *cobra.Command {
	return &cobra.Command{
		Use:     "version",
		Short:   "Print the version",
		Hidden:  true, // --version prints it too, and the help fits a screen
		Example: "  fumehood version --json",
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			number := versionOf()
			if a.json {
				return a.printJSON(map[string]any{"version": number, "go": runtime.Version(), "os": runtime.GOOS,
					"arch": runtime.GOARCH, "guest_protocol": guest.Version})
			}
			_, err := fmt.Fprintf(a.Stdout, "fumehood %s (%s, %s/%s)\n", number, runtime.Version(), runtime.GOOS,
				runtime.GOARCH)
			return err
		},
	}
}

func versionOf() string {
	if version != "" {
		return version
	}
	if info, ok := debug.ReadBuildInfo(); ok && info.Main.Version != "" {
		return info.Main.Version
	}
	return "unknown"
}
