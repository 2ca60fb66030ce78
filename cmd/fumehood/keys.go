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

	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxKeys = 10_000 // in one file: each request is compared with all

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
		Long: `Create makes an API key for a client of that name. The key itself is kept nowhere; what serve
needs is its hash.

With --file the hash is appended to the file and the key is printed. Without, the line for the
file is printed, and the key goes to stderr.`,
		Example: `  fumehood keys create alice --file keys
  fumehood serve --listen 0.0.0.0:7070 --api-key-file keys`,
		Args: func(_ *cobra.Command, args []string) error {
			if len(args) == 1 {
				return nil
			}
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "keys create", Msg: "needs one name", Fix: "fumehood keys create NAME --file keys"}
		},
		RunE: func(_ *cobra.Command, args []string) error { return a.createKey(args[0], file) },
	}
	create.Flags().StringVar(&file, "file", "", "append the hash to this `FILE`, for serve --api-key-file")
	_ = create.Flags().SetAnnotation("file", flagAlone, nil)
	keys.AddCommand(create)
	return keys
}

// createKey makes an API key, which is stored nowhere, and prints it with its line for the file of keys.
func (a *app) createKey(name, file string) error {
	if strings.ContainsFunc(name, func(r rune) bool { return r == '#' || unicode.IsSpace(r) || !unicode.IsGraphic(r) }) {
		return sandbox.Invalidf("keys create", "a name has no blanks, no # and no control characters")
	}
	secret := httpd.NewSecret()
	key, err := httpd.NewKey(name, secret)
	if err != nil {
		return err
	}
	line, shown := key.Name+" "+key.String(), secret
	if file != "" {
		if err := a.appendKey(file, line); err != nil {
			return &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "--file", Err: err}
		}
		a.note(plain, "%s has its hash; the key is shown this once", file)
	} else if !a.json {
		a.say(plain, "note: the key, shown this once: %s", secret)
		shown = line
	}
	if a.json {
		return a.printJSON(map[string]string{"name": name, "key": secret, "line": line})
	}
	_, err = fmt.Fprintln(a.Stdout, shown)
	return err
}

// appendKey adds a line to a file of keys. It makes a new file readable by its owner only.
func (a *app) appendKey(file, line string) error {
	path, err := a.named(file)
	if err != nil {
		return err
	}
	text, err := readConfigFile(path, true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if len(text) > 0 && text[len(text)-1] != '\n' {
		line = "\n" + line
	}
	f, err := openHost(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
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
	text, err := readConfigFile(path, true)
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "--api-key-file", Err: err}
	}
	var keys []httpd.Key
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 || !strings.HasPrefix(fields[1], "sha256:") {
			return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: fmt.Sprintf("%s: line %d", path, i+1),
				Msg: "is not a name and sha256: with a hash", Fix: "fumehood keys create NAME --file " + quoteWords([]string{path})}
		}
		key, err := httpd.NewKey(fields[0], fields[1])
		if err != nil {
			return nil, fmt.Errorf("%s: line %d: %w", path, i+1, err)
		}
		if keys = append(keys, key); len(keys) > maxKeys {
			return nil, sandbox.Invalidf(path, "holds more than %d keys", maxKeys)
		}
	}
	if len(keys) == 0 {
		return nil, sandbox.Invalidf("--api-key-file", "%s holds no key", path)
	}
	return keys, nil
}

// severalNames reports whether the keys belong to more than one client: keys of one name are one client's, new and old.
func severalNames(keys []httpd.Key) bool {
	return slices.ContainsFunc(keys, func(k httpd.Key) bool { return k.Name != keys[0].Name })
}
