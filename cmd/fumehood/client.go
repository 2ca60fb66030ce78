package main

import (
	"context"
	"math"
	"path/filepath"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	maxKeyFile      = 4 << 10         // bytes
	completeTimeout = 2 * time.Second // limits the wait for names after Tab
)

// serverFlags choose the server of commands for living sandboxes.
type serverFlags struct {
	server  string
	keyFile string
}

func (f *serverFlags) add(flags *pflag.FlagSet) {
	flags.StringVar(&f.server, "server", "", "`URL` of the server, or unix:PATH (default that of this user here)")
	flags.StringVar(&f.keyFile, "key-file", "", "`FILE` with the API key (or the key itself in FUMEHOOD_KEY)")
}

// openClient returns a client of the server. The local socket of this user needs no key.
func (a *app) openClient(f *serverFlags) (*client.Client, error) {
	config := client.Config{Server: f.server, Agent: "fumehood/" + versionOf(), Key: a.env().Get("FUMEHOOD_KEY")}
	if config.Server == "" {
		if err := rundir.Check(a.env().RunDir()); err != nil {
			return nil, err
		}
		config.Server = client.UnixPrefix + filepath.Join(a.env().RunDir(), localSocket)
	}
	if f.keyFile != "" {
		text, err := a.host().Read("--key-file", f.keyFile, maxKeyFile)
		if err != nil {
			return nil, err
		}
		config.Key = string(text)
	}
	config.Key = strings.TrimSpace(config.Key)
	if strings.ContainsAny(config.Key, " \t\r\n") {
		return nil, sandbox.Invalidf("--key-file", "must contain exactly one key")
	}
	return client.New(config)
}

// onServer makes cmd a command of a server: it adds the flags that choose one, and completes the first words with the
// names of living sandboxes.
func (a *app) onServer(cmd *cobra.Command, words int,
	do func(ctx context.Context, c *client.Client, args []string) error) *cobra.Command {
	var f serverFlags
	f.add(cmd.Flags())
	cmd.ValidArgsFunction = a.completeNames(&f, words)
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c, err := a.openClient(&f)
		if err != nil {
			return err
		}
		defer c.Close()
		return do(cmd.Context(), c, args)
	}
	return cmd
}

// allWords makes completeNames complete every word.
const allWords = math.MaxInt

// completeNames completes the first words of a command, or the value of a flag, with the names of living sandboxes. It
// shows no errors.
func (a *app) completeNames(f *serverFlags, words int) cobra.CompletionFunc {
	return func(cmd *cobra.Command, args []string, _ string) (names []string, _ cobra.ShellCompDirective) {
		if len(args) >= words {
			return nil, cobra.ShellCompDirectiveDefault
		}
		ctx, cancel := context.WithTimeout(cmd.Context(), completeTimeout)
		defer cancel()
		if a.settings.Apply(cmd, a.Environ(), a.env()) != nil { // a variable or the configuration may name the server
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		c, err := a.openClient(f)
		if err != nil {
			return nil, cobra.ShellCompDirectiveNoFileComp
		}
		defer c.Close()
		list, _ := c.Sandboxes(ctx, nil)
		for _, s := range list {
			names = append(names, s.NameOrID())
		}
		return names, cobra.ShellCompDirectiveNoFileComp
	}
}
