// Package keyfile reads and changes files of API keys.
//
// Each line is a name, the hash of a secret, and options: those of `fumehood keys create`, with an equals sign before a
// value. Lines that begin with # are comments.
//
//	alice sha256:9f86d0... expires=2027-01-01T00:00:00Z rate=10/s max-memory=1GiB
package keyfile

import (
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/cli/settings"
	"github.com/fumehood-dev/fumehood/internal/egress"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxKeys limits one file: the server compares each request with all keys.
const maxKeys = 10_000

// Options are the options of a key, as flags and in a line of the file.
type Options struct {
	expires  expiry
	operator bool
	rate     rateValue
	limits   sandbox.Limits
	most     int // living sandboxes
	network  sandbox.NetworkCeiling
	images   []string
	flags    *pflag.FlagSet
}

// Add adds a flag for each option.
func (o *Options) Add(to *pflag.FlagSet) {
	flags := pflag.NewFlagSet("key", pflag.ContinueOnError)
	o.flags = flags
	flags.Var(&o.expires, "expires", "the key ends at this `TIME`: 90d, 12h, 2027-01-31 or 2027-01-31T18:00:00Z")
	flags.BoolVar(&o.operator, "operator", false, "the key may see and end what other keys made")
	flags.Var(&o.rate, "rate", "requests at once and in each unit, such as 10/s, 600/m or 1000/h")
	flags.IntVar(&o.most, "owner-sandboxes", 0, "living sandboxes (default that of serve)")
	settings.AddOwnMaxima(flags, &o.limits)
	flags.StringVar((*string)(&o.network.Mode), "max-network", "",
		"highest `MODE`: none, restricted or full (default that of serve)")
	flags.StringSliceVar(&o.network.Allow, "network-allow", nil,
		"may open public, or a `RULE` as in --allow (default that of serve)")
	flags.StringSliceVar(&o.images, "allow-image", nil, "`PATTERN` of images (default those of serve)")
	to.AddFlagSet(flags)
}

// names of the options.
func (o *Options) names() (names []string) {
	o.flags.VisitAll(func(f *pflag.Flag) { names = append(names, f.Name) })
	return names
}

// String returns the options that are set, as in a line.
func (o *Options) String() string {
	var words []string
	for _, name := range o.names() {
		f := o.flags.Lookup(name)
		list, isList := f.Value.(pflag.SliceValue)
		switch {
		case !f.Changed:
		case isList:
			words = append(words, name+"="+strings.Join(list.GetSlice(), ","))
		case f.Value.Type() == "bool" && f.Value.String() == "true":
			words = append(words, name)
		default:
			words = append(words, name+"="+f.Value.String())
		}
	}
	return strings.Join(words, " ")
}

// limitsText is String without what may differ between the keys of one name.
func (o *Options) limitsText() string {
	words := slices.DeleteFunc(strings.Fields(o.String()), func(word string) bool {
		return strings.HasPrefix(word, "expires=")
	})
	return strings.Join(words, " ")
}

// set sets an option from a word of a line.
func (o *Options) set(word string) error {
	name, value, hasValue := strings.Cut(word, "=")
	if !slices.Contains(o.names(), name) {
		e := sandbox.Invalidf("", "unknown option %.64q", name)
		if e.Fix = "remove it"; nearest.Name(name, o.names()) != "" {
			e.Fix = "did you mean " + nearest.Name(name, o.names()) + "?"
		}
		return e
	}
	f := o.flags.Lookup(name)
	if !hasValue {
		if f.Value.Type() != "bool" {
			return sandbox.Invalidf("", "%s needs a value: %s=...", name, name)
		}
		value = "true"
	}
	if f.Changed {
		return sandbox.Invalidf("", "%s is given twice", name)
	}
	if err := o.flags.Set(name, value); err != nil {
		return settings.InvalidValue(name, f, value, unwrapped(err))
	}
	return nil
}

func unwrapped(err error) error {
	if inner, ok := err.(interface{ Unwrap() error }); ok && inner.Unwrap() != nil {
		return inner.Unwrap()
	}
	return err
}

// complete checks the options and sets them in a key.
func (o *Options) complete(key *httpd.Key) error {
	lists := strings.Join(slices.Concat(o.network.Allow, o.images), "")
	if strings.ContainsAny(string(o.network.Mode)+lists, " \t\n#") {
		return sandbox.Invalidf("keys", "an option must not contain blanks or #")
	}
	if f := o.flags.Lookup("owner-sandboxes"); f.Changed && o.most < 1 {
		return sandbox.Invalidf("owner-sandboxes", "must be at least 1")
	}
	key.Expires = o.expires.at
	key.Limits = httpd.KeyLimits{Operator: o.operator, Rate: httpd.Rate(o.rate)}
	key.Limits.Sandboxes, key.Limits.Max = o.most, o.limits
	if o.network.Mode != "" || o.network.Allow != nil {
		checked := o.network
		if err := egress.CheckCeiling(&checked); err != nil {
			return err
		}
		own := o.network
		own.OfKey = true
		key.Limits.Ceiling = &own
	}
	if o.images != nil { // an empty list offers none
		var err error
		if key.Limits.Images, err = settings.Patterns("allow-image", o.images); err != nil {
			return err
		}
	}
	return nil
}

// Entry is one key of a file.
type Entry struct {
	httpd.Key
	Options string // as in its line

	limits string
	line   int // counted from 0
}

// Read reads a file of keys, which a flag names. The file may have none. Errors name the flag or the line.
func Read(flag, name string) ([]Entry, error) {
	text, err := hostfiles.ReadTrusted(name, true)
	if err != nil {
		return nil, hostfiles.Error(flag, err)
	}
	return parse(name, string(text))
}

// Keys returns the keys of entries.
func Keys(entries []Entry) []httpd.Key {
	keys := make([]httpd.Key, len(entries))
	for i := range entries {
		keys[i] = entries[i].Key
	}
	return keys
}

func parse(name, text string) (entries []Entry, err error) {
	byHash, byName := map[string]int{}, map[string]*Entry{}
	for i, line := range strings.Split(text, "\n") {
		where := fmt.Sprintf("%s: line %d", name, i+1)
		words := strings.Fields(line)
		if len(words) == 0 || strings.HasPrefix(words[0], "#") {
			continue
		}
		if len(words) < 2 || !strings.HasPrefix(words[1], "sha256:") {
			return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: where, Msg: "is not a name and sha256: with a hash",
				Fix: "fumehood keys create NAME --file " + name}
		}
		entry, err := parseEntry(words)
		if err != nil {
			return nil, hostfiles.Error(where, err)
		}
		entry.line = i
		if first, twice := byHash[entry.Key.String()]; twice {
			return nil, sandbox.Invalidf(where, "has the key of line %d", first+1)
		}
		byHash[entry.Key.String()] = i
		if other := byName[entry.Name]; other != nil && other.limits != entry.limits {
			e := sandbox.Invalidf(where, "%s has other limits on line %d", entry.Name, other.line+1)
			e.Fix = "give all keys of one name the same options, besides expires"
			return nil, e
		}
		byName[entry.Name] = &entry
		if entries = append(entries, entry); len(entries) > maxKeys {
			return nil, sandbox.Invalidf(name, "contains more than %d keys", maxKeys)
		}
	}
	return entries, nil
}

func parseEntry(words []string) (entry Entry, err error) {
	if entry.Key, err = httpd.NewKey(words[0], words[1]); err != nil {
		return entry, err
	}
	o := &Options{}
	o.Add(pflag.NewFlagSet("", pflag.ContinueOnError))
	o.expires.absolute = true
	for _, word := range words[2:] {
		if err := o.set(word); err != nil {
			return entry, err
		}
	}
	entry.Options, entry.limits = o.String(), o.limitsText()
	return entry, o.complete(&entry.Key)
}

// OpenToAll reports whether every user of this host can read a file. It has names and limits, but no secrets.
func OpenToAll(name string) bool {
	info, err := os.Stat(name)
	return err == nil && info.Mode().Perm()&0o004 != 0
}
