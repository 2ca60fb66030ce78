package main

import (
	"cmp"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/keyfile"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
)

func (a *app) newKeys() *cobra.Command {
	keys := &cobra.Command{
		Use:   "keys",
		Short: "Make, list and revoke API keys for serve",
		Args:  knownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	keys.AddCommand(a.newKeysCreate(), a.newKeysList(), a.newKeysRevoke())
	for _, c := range keys.Commands() { // settings of serve have the same names
		c.Flags().VisitAll(func(f *pflag.Flag) { _ = c.Flags().SetAnnotation(f.Name, settings.NoSetting, nil) })
	}
	return keys
}

// oneName checks that there is one word, a name.
func oneName(command string) cobra.PositionalArgs {
	return func(_ *cobra.Command, args []string) error {
		if len(args) == 1 {
			return nil
		}
		return invalid(command, "needs one name", "fumehood "+command+" NAME --file keys")
	}
}

func (a *app) newKeysCreate() *cobra.Command {
	var file string
	var options keyfile.Options
	create := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an API key and show it once",
		Long: `Create makes an API key for a client of that name. Only its hash, which serve needs, is stored.

With --file, create adds the hash to the file and prints the key. Without --file, it prints the line
for the file, and the key on stderr. A running server reads the changed file within seconds.

Limits are those of the name: a second key of a name gets the limits of the first. They replace the
limits of serve.`,
		Example: `  fumehood keys create alice --file keys
  fumehood keys create ci --file keys --expires 90d --rate 600/m --max-memory 1GiB --owner-sandboxes 5
  fumehood serve --listen 0.0.0.0:7070 --api-key-file keys`,
		Args: oneName("keys create"),
		RunE: func(_ *cobra.Command, args []string) error { return a.createKey(args[0], file, &options) },
	}
	create.Flags().StringVar(&file, "file", "", "add the hash to this `FILE`, for serve --api-key-file")
	options.Add(create.Flags())
	return create
}

// createKey makes an API key, which is stored nowhere, and prints it with its line for the file of keys.
func (a *app) createKey(name, file string, options *keyfile.Options) error {
	secret, line, err := keyfile.New(name, options)
	if err != nil {
		return err
	}
	printed := secret
	if file != "" {
		path, err := a.host().Resolve(file)
		if err == nil {
			err = keyfile.Add(path, line)
		}
		if err != nil {
			return hostfiles.Error("--file", err)
		}
		a.note(terminal.Plain, "%s has its hash; the key is shown only now", file)
	} else if !a.json {
		a.say(terminal.Plain, "note: the key, shown only now: %s", secret)
		printed = line
	}
	if a.json {
		return a.printJSON(map[string]string{"name": name, "key": secret, "line": line})
	}
	_, err = fmt.Fprintln(a.Stdout, printed)
	return err
}

func (a *app) newKeysList() *cobra.Command {
	var file string
	list := &cobra.Command{
		Use:     "list",
		Short:   "List the API keys of a file, without the keys",
		Example: "  fumehood keys list --file keys",
		Args:    cobra.NoArgs,
		RunE:    func(*cobra.Command, []string) error { return a.listKeys(file) },
	}
	list.Flags().StringVar(&file, "file", "", "`FILE` of the keys (required)")
	return list
}

// listedKey is a key in the list.
type listedKey struct {
	Name    string     `json:"name"`
	ID      string     `json:"id"`
	Expires *time.Time `json:"expires,omitempty"`
	Expired bool       `json:"expired"`
	Options string     `json:"options"`
}

func (a *app) listKeys(file string) error {
	if file == "" {
		return invalid("keys list", "needs the file", "fumehood keys list --file keys")
	}
	entries, err := keyfile.Read("--file", file)
	if err != nil {
		return err
	}
	list := make([]listedKey, len(entries))
	for i, e := range entries {
		list[i] = listedKey{Name: e.Name, ID: e.ID(), Expired: e.Expired(time.Now()), Options: e.Options}
		if !e.Expires.IsZero() {
			list[i].Expires = &e.Expires
		}
	}
	if a.json {
		return a.printJSON(list)
	}
	for _, k := range list {
		state := "valid   "
		if k.Expired {
			state = "expired "
		}
		_, err := fmt.Fprintf(a.Stdout, "%s  %s %-20s %s\n", k.ID, state, k.Name, cmp.Or(k.Options, "-"))
		if err != nil {
			return err
		}
	}
	return nil
}

func (a *app) newKeysRevoke() *cobra.Command {
	var file, id string
	revoke := &cobra.Command{
		Use:   "revoke NAME",
		Short: "Remove the API keys of a name from a file",
		Long: `Revoke removes the API keys of a name, or one of them, from a file. A running server refuses them within
seconds, and ends their requests in progress. Living sandboxes of the name remain until they end.`,
		Example: `  fumehood keys revoke alice --file keys
  fumehood keys revoke alice --id 9f86d081 --file keys`,
		Args: oneName("keys revoke"),
		RunE: func(_ *cobra.Command, args []string) error { return a.revokeKeys(args[0], file, id) },
	}
	revoke.Flags().StringVar(&file, "file", "", "`FILE` of the keys (required)")
	revoke.Flags().StringVar(&id, "id", "", "only the key of this `ID`, of fumehood keys list")
	return revoke
}

func (a *app) revokeKeys(name, file, id string) error {
	if file == "" {
		return invalid("keys revoke", "needs the file", "fumehood keys revoke NAME --file keys")
	}
	path, err := a.host().Resolve(file)
	if err != nil {
		return hostfiles.Error("--file", err)
	}
	revoked, err := keyfile.Revoke(path, name, id)
	if err != nil {
		return hostfiles.Error("keys revoke", err)
	}
	for _, e := range revoked {
		if _, err := fmt.Fprintf(a.Stdout, "%s %s\n", e.ID(), e.Name); err != nil {
			return err
		}
	}
	return nil
}
