package main

import (
	"github.com/spf13/cobra"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func (a *app) newExec() *cobra.Command {
	var f sandboxFlags
	cmd := &cobra.Command{
		Use:   "exec [flags] -- CMD [ARG...]",
		Short: "Run any command in a sandbox of its own",
		Long: `Exec runs a command as it stands, without a shell, in a fresh sandbox that ends with it. The first word is looked up on
the PATH of the sandbox. Words from the command on are its own, with or without the --.`,
		Example: `  glovebox exec -- uname -a
  glovebox exec --workspace ./data -- ls -la
  glovebox exec --file main.c --out . -- gcc -o main main.c
  glovebox exec --allow-command sort -- sort < names.txt`,
		RunE: func(cmd *cobra.Command, args []string) error {
			if len(args) == 0 {
				return &sandbox.Error{Kind: sandbox.Invalid, Op: "exec", Msg: "there is no command", Fix: "write it after --, as in glovebox exec -- ls"}
			}
			spec, err := a.spec(&f)
			if err != nil {
				return err
			}
			run := engine.Run{Backend: f.backend, Spec: spec, Request: sandbox.Request{Command: args}}
			if err := a.fillRequest(cmd.Context(), &run, &f, nil); err != nil {
				return err
			}
			return a.execute(cmd.Context(), run, &f)
		},
	}
	cmd.Flags().SetInterspersed(false) // ls -la: the dash belongs to the command
	f.add(cmd)
	return cmd
}
