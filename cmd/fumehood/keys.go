package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"unicode"

	"github.com/spf13/cobra"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/cli/terminal"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxKeys = 10_000 // in one file: the server compares each request with all

func (a *app) newKeys() *cobra.Command {
	keys := &cobra.Command{
		Use:   "keys",
		Short: "Make API keys for serve",
		Args:  knownCommand,
		RunE:  func(cmd *cobra.Command, _ []string) error { return cmd.Help() },
	}
	var file string
	create := &cobra.Command{
		Use:   "create NAME",
		Short: "Make an API key and show it once",
		Long: `Create makes an API key for a client of that name. Only its hash, which serve needs, is stored.

With --file, create appends the hash to the file and prints the key. Without --file, it prints the
line for the file, and the key on stderr.`,
		Example: `  fumehood keys create alice --file keys
  fumehood serve --listen 0.0.0.0:7070 --api-key-file keys`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return invalid("keys create", "needs one name", "fumehood keys create NAME --file keys")
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.createKey(args[0], file) },
	}
	create.Flags().StringVar(&file, "file", "", "append the hash to this `FILE`, for serve --api-key-file")
	_ = create.Flags().SetAnnotation("file", settings.NoSetting, nil)
	keys.AddCommand(create)
	return keys
}

// createKey makes an API key, which is stored nowhere, and prints it with its line for the file of keys.
func (a *app) createKey(name, file string) error {
	wrong := func(r rune) bool { return r == '#' || unicode.IsSpace(r) || !unicode.IsGraphic(r) }
	if strings.ContainsFunc(name, wrong) {
		return sandbox.Invalidf("keys create", "a name must not contain blanks, # or control characters")
	}
	secret := httpd.NewSecret()
	key, err := httpd.NewKey(name, secret)
	if err != nil {
		return err
	}
	line, printed := key.Name+" "+key.String(), secret
	if file != "" {
		if err := a.appendKey(file, line); err != nil {
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

// appendKey adds a line to a file of keys. It makes a new file readable by its owner only.
func (a *app) appendKey(file, line string) error {
	path, err := a.host().Resolve(file)
	if err != nil {
		return err
	}
	text, err := hostfiles.ReadTrusted(path, true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	f, err := hostfiles.OpenResolved(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	_, err = f.WriteString(line + "\n")
	return errors.Join(err, f.Close())
}

// readKeys reads a file of API keys: a name and a hash on each line. Lines that begin with # are comments.
func readKeys(path string) ([]httpd.Key, error) {
	if path == "" {
		return nil, nil
	}
	text, err := hostfiles.ReadTrusted(path, true)
	if err != nil {
		return nil, hostfiles.Error("--api-key-file", err)
	}
	var keys []httpd.Key
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 || !strings.HasPrefix(fields[1], "sha256:") {
			return nil, invalid(fmt.Sprintf("%s: line %d", path, i+1), "is not a name and sha256: with a hash",
				"fumehood keys create NAME --file "+terminal.Quote(path))
		}
		key, err := httpd.NewKey(fields[0], fields[1])
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, i+1, err)
		}
		if keys = append(keys, key); len(keys) > maxKeys {
			return nil, sandbox.Invalidf(path, "contains more than %d keys", maxKeys)
		}
	}
	if len(keys) == 0 {
		return nil, sandbox.Invalidf("--api-key-file", "%s contains no key", path)
	}
	return keys, nil
}

// severalNames reports whether the keys belong to more than one client. A client may have several keys of its name.
func severalNames(keys []httpd.Key) bool {
	return slices.ContainsFunc(keys, func(k httpd.Key) bool { return k.Name != keys[0].Name })
}
