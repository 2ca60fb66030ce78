package main

import (
	"context"
	"io"
	"net/http"
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
		serverFlags
		in string
	}
	cmd := &cobra.Command{
		Use:   "mcp",
		Short: "Serve a sandbox to a model, by the Model Context Protocol",
		Long: `Mcp serves the tools run_code, run_command, read_file, write_file, list_files and reset_sandbox on
standard input and output. All calls of a client share one sandbox, which ends with the client.

With --in NAME, they use a living sandbox of a server (fumehood serve), which is created if there is
none. It outlives the client, and ps lists it.`,
		Example: `  claude mcp add fumehood -- fumehood mcp
  fumehood mcp --workspace ./data --memory 2GiB
  fumehood mcp --in agent-7`,
		Args: cobra.NoArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if f.in != "" || cmd.Flags().Changed("in") {
				return a.bridgeMCP(cmd, f.in, &f.serverFlags)
			}
			return a.serveMCP(cmd.Context(), &f.boxFlags, &f.packageFlags)
		},
	}
	f.boxFlags.add(cmd)
	f.addHost(cmd)
	f.packageFlags.add(cmd.Flags())
	cmd.Flags().StringVar(&f.in, "in", "", "use the living sandbox of this `NAME` or id")
	f.serverFlags.add(cmd.Flags())
	_ = cmd.RegisterFlagCompletionFunc("in", a.completeNames(&f.serverFlags, allWords))
	return cmd
}

// bridgeMCP passes the messages of the client to a server.
func (a *app) bridgeMCP(cmd *cobra.Command, name string, f *serverFlags) error {
	if name == "" {
		return invalid("--in", "needs the name of a sandbox", "fumehood ps lists them")
	}
	if err := a.refuseForLiving(cmd, name); err != nil {
		return err
	}
	for _, flag := range append([]string{"timeout"}, environmentNames...) {
		if a.named(cmd, flag) {
			return invalid("--"+flag, "cannot be combined with --in", "fumehood create --name "+name+" --"+flag+" ...")
		}
	}
	c, err := a.openClient(f)
	if err != nil {
		return err
	}
	defer c.Close()
	ctx := cmd.Context()
	defer context.AfterFunc(ctx, func() { a.Stdin.Close() })()
	return mcp.Bridge(ctx, a.Stdin, a.Stdout,
		func(ctx context.Context, method string, h http.Header, body io.Reader) (*http.Response, error) {
			return c.MCP(ctx, name, method, h, body)
		})
}

func (a *app) serveMCP(ctx context.Context, f *boxFlags, kept *packageFlags) (err error) {
	living := engine.Create{Backend: f.backend}
	if living.Spec, err = a.spec(f); err != nil {
		return err
	}
	living.Ends = engine.Ends{Idle: &mcpIdle, In: engine.MaxLifetime}
	return a.withEngine(engine.Config{}, kept, func(e *openedEngine) error {
		a.recoverAside(ctx, e)
		server := mcp.New(mcp.Config{Engine: e.Engine, Version: versionOf(), Living: living, Ahead: true,
			Log: a.logger()})
		defer server.Close()
		return server.Stdio(ctx, a.Stdin, a.Stdout)
	})
}
