package keyfile

import (
	"errors"
	"io/fs"
	"path/filepath"
	"slices"
	"strings"
	"time"
	"unicode"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// New makes a key of a name with a fresh secret, and its line for a file.
func New(name string, o *Options) (secret, line string, err error) {
	wrong := func(r rune) bool { return r == '#' || unicode.IsSpace(r) || !unicode.IsGraphic(r) }
	if strings.ContainsFunc(name, wrong) {
		return "", "", sandbox.Invalidf("keys create", "a name must not contain blanks, # or control characters")
	}
	secret = httpd.NewSecret()
	key, err := httpd.NewKey(name, secret)
	if err != nil {
		return "", "", err
	}
	if err := o.complete(&key); err != nil {
		return "", "", err
	}
	if key.Expired(time.Now()) {
		return "", "", sandbox.Invalidf("--expires", "%s has passed", o.expires.String())
	}
	return secret, strings.TrimSpace(key.Name + " " + key.String() + " " + o.String()), nil
}

// Add adds the line of a new key to a file, which it may create, readable by its owner only. path has no links. Without
// limits, a key of a name that the file has gets those of the name: all keys of a name have the same. Invalid: it has
// others.
func Add(path, line string) error {
	return change(path, func(text string) (string, error) {
		entries, err := parse(path, text)
		if err != nil {
			return "", err
		}
		words := strings.Fields(line)
		entry, err := parseEntry(words)
		if err != nil {
			return "", err
		}
		i := slices.IndexFunc(entries, func(e Entry) bool { return e.Name == entry.Name })
		if i >= 0 && entry.limits == "" && entries[i].limits != "" {
			line += " " + entries[i].limits
		}
		if text != "" && !strings.HasSuffix(text, "\n") {
			text += "\n"
		}
		text += line + "\n"
		_, err = parse(path, text) // other limits of the same name
		return text, err
	})
}

// Revoke removes the keys of a name from a file, or the one of an id, and returns them. path has no links.
func Revoke(path, name, id string) (revoked []Entry, err error) {
	err = change(path, func(text string) (string, error) {
		entries, err := parse(path, text)
		if err != nil {
			return "", err
		}
		lines, names := strings.Split(text, "\n"), []string{}
		for _, e := range slices.Backward(entries) {
			names = append(names, e.Name)
			if e.Name == name && (id == "" || e.ID() == id) {
				lines = slices.Delete(lines, e.line, e.line+1)
				revoked = append(revoked, e)
			}
		}
		if len(revoked) > 0 {
			return strings.Join(lines, "\n"), nil
		}
		missing := &sandbox.Error{Kind: sandbox.NotFound, Op: "keys revoke", Msg: "no key has this name",
			Fix: "fumehood keys list --file " + path}
		if slices.Contains(names, name) {
			missing.Msg = "no key of this name has this id"
		} else if near := nearest.Name(name, names); near != "" {
			missing.Fix = "did you mean " + near + "?"
		}
		return "", missing
	})
	return revoked, err
}

// change replaces the content of a file, so that a server never reads a part of it. Concurrent changes wait for each
// other.
func change(path string, edit func(text string) (string, error)) error {
	unlock, err := lock(filepath.Join(filepath.Dir(path), "."+filepath.Base(path)+".lock"))
	if err != nil {
		return err
	}
	defer unlock()
	text, err := hostfiles.ReadTrusted(path, true)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	edited, err := edit(string(text))
	if err != nil {
		return err
	}
	return hostfiles.Replace(path, []byte(edited), 0o600)
}
