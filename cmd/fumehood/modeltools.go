package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/mcp"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func (a *app) newTools() *cobra.Command {
	var format string
	cmd := &cobra.Command{
		Use:   "tools",
		Short: "Print the definition of run_code for the API of a model",
		Long: `Tools prints the definition of the tool run_code as JSON, for the tools of a request to a model.
Formats are openai-responses, openai-chat and anthropic. The arguments of a call are the body of
POST /v1/sandboxes/NAME/run of a server; give the model the field text of the answer.`,
		Example: `  fumehood tools --format anthropic`,
		Args:    cobra.NoArgs,
		RunE: func(*cobra.Command, []string) error {
			text, err := mcp.Function(format)
			if err != nil {
				return sandbox.Invalidf("--format", "%.40q is not one of %s", format, inWords(mcp.Formats))
			}
			_, err = fmt.Fprintf(a.Stdout, "%s\n", text)
			return err
		},
	}
	cmd.Flags().StringVar(&format, "format", mcp.Formats[0], "`FORMAT` of the API (default "+mcp.Formats[0]+")")
	completions(cmd, "format", mcp.Formats...)
	return cmd
}
