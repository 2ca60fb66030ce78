package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/httpapi"
	"github.com/glovebox-dev/glovebox/sandbox"
)

const maxKeys = 10_000 // in one file: every request is compared with each

// makeKey makes a fresh API key, which is kept nowhere. The line that lets it in goes to stdout, so that >> appends it to the file of
// keys, and the key itself to stderr.
func (a *app) makeKey(name string) error {
	if strings.ContainsAny(name, " \t\n#") {
		return sandbox.Invalidf("--new-key", "a name has no blanks and no #")
	}
	secret := httpapi.NewSecret()
	key, err := httpapi.NewKey(name, secret)
	if err != nil {
		return err
	}
	line := key.Name + " " + key.String()
	if a.json {
		return a.printJSON(map[string]string{"name": name, "key": secret, "line": line})
	}
	a.say(plain, "note: the key, shown this once: %s", secret)
	_, err = fmt.Fprintln(a.Stdout, line)
	return err
}

// readKeys reads a file of API keys: on each line a name and a hash. Lines that begin with # are remarks.
func readKeys(path string) ([]httpapi.Key, error) {
	if path == "" {
		return nil, nil
	}
	text, err := readConfigFile(path, true)
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "--api-key-file", Err: err}
	}
	var keys []httpapi.Key
	for i, line := range strings.Split(string(text), "\n") {
		fields := strings.Fields(line)
		if len(fields) == 0 || strings.HasPrefix(fields[0], "#") {
			continue
		}
		if len(fields) != 2 || !strings.HasPrefix(fields[1], "sha256:") {
			return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: fmt.Sprintf("%s: line %d", path, i+1),
				Msg: "is not a name and sha256: with a hash", Fix: "glovebox serve --new-key NAME makes such a line"}
		}
		key, err := httpapi.NewKey(fields[0], fields[1])
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

// severalNames says whether the keys are of more than one client: those of one name are one client's, who replaces the older.
func severalNames(keys []httpapi.Key) bool {
	return slices.ContainsFunc(keys, func(k httpapi.Key) bool { return k.Name != keys[0].Name })
}
