package main

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/mcp"
)

// mcpIdle ends the sandbox of a client that stays open. Otherwise the sandbox ends with its client.
var mcpIdle = 24 * time.Hour

func (a *app) newMCP() *cobra.Command {
	var f struct {
		boxFlags
		packageFlags
	}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve a sandbox to a model, by the Model Context Protocol",
		Long: `Mcp serves the tools run_code, run_command, read_file, write_file, list_files and reset_sandbox on
standard input and output. All calls of a client share one sandbox, which ends with the client.`,
		Example: `  claude mcp add fumehood -- fumehood mcp
  fumehood mcp --workspace ./data --memory 2GiB`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			return a.serveMCP(cmd.Context(), &f.boxFlags, &f.packageFlags)
		},
	}
	f.boxFlags.add(cmd)
	f.addHost(cmd)
	f.packageFlags.add(cmd.Flags())
	return cmd
}

func (a *app) serveMCP(ctx context.Context, f *boxFlags, kept *packageFlags) (err error) {
	living := engine.Create{Backend: f.backend}
	if living.Spec, err = a.spec(f); err != nil {
		return err
	}
	living.Ends = engine.Ends{Idle: &mcpIdle, In: engine.MaxLifetime}
	return a.withEngine(engine.Config{}, kept, func(e *openedEngine) error {
		e.recoverAside(ctx)
		server := mcp.New(mcp.Config{Engine: e.Engine, Version: versionOf(), Living: living, Ahead: true,
			Log: a.logger()})
		defer server.Close()
		return server.Stdio(ctx, a.Stdin, a.Stdout)
	})
}
