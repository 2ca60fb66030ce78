// Package settings sets flags from variables and the configuration file, and finds the folders of this user.
//
// The flags of all commands are the settings. The name of a flag determines its variable and its key in the
// configuration file: output-limit, FUMEHOOD_OUTPUT_LIMIT, output_limit.
package settings

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/cli/hostfiles"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const prefix = "FUMEHOOD_"

// flagOnly are the flags that make no sense as settings.
var flagOnly = []string{"help", "code", "rm", "interactive", "tty", "in", "context", "name", "metadata", "detach",
	"all", "follow", "after", "force"}

// NoSetting annotates a flag that no variable or configuration sets, although a flag of another command has its name.
const NoSetting = "fumehood: no setting"

// otherVariables have our prefix but are no settings.
var otherVariables = []string{
	"FUMEHOOD_LIBEXEC",   // the folder of the guest program
	"FUMEHOOD_KEY",       // the API key for a server
	"FUMEHOOD_PROGRAM",   // this program, for the clients that start a server
	"FUMEHOOD_EXECUTION", // marks the processes of a run, which may start fumehood themselves
}

// Variable returns the variable of a flag.
func Variable(flag string) string { return prefix + strings.ToUpper(key(flag)) }

func key(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// Settings are the settings of one command.
type Settings struct {
	File string // the configuration file, of --config

	// Complete adds the commands that the root lacks, before their flags are listed. May be nil.
	Complete func(root *cobra.Command)

	configured []string // flags set by a variable or the file
	inFile     []string // those set by the file
}

// Configured reports whether a variable or the configuration file set a flag.
func (s *Settings) Configured(flag string) bool { return slices.Contains(s.configured, flag) }

// Exposed reports whether the configuration file set a flag, and every user of this machine can read it.
func (s *Settings) Exposed(flag string) bool {
	return slices.Contains(s.inFile, flag) && hostfiles.OthersCanRead(s.File)
}

// Apply sets each flag of cmd that is not on the command line from its variable, else from the configuration file.
// environ are all variables, as of os.Environ.
func (s *Settings) Apply(cmd *cobra.Command, environ []string, env Environment) error {
	known := sync.OnceValue(func() []string {
		if s.Complete != nil {
			s.Complete(cmd.Root())
		}
		return names(cmd.Root())
	})
	variables, err := fromVariables(known, environ)
	if err != nil {
		return err
	}
	if path, ok := variables["config"]; ok && !cmd.Flags().Changed("config") {
		s.File = path
	}
	file, err := s.readFile(known, env)
	if err != nil {
		return err
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		_, noSetting := f.Annotations[NoSetting]
		if err != nil || f.Changed || noSetting || slices.Contains(flagOnly, f.Name) {
			return
		}
		if text, ok := variables[f.Name]; ok {
			s.configured = append(s.configured, f.Name)
			err = set(f, Variable(f.Name), splitList(f, text))
		} else if value, ok := file[key(f.Name)]; ok {
			s.configured, s.inFile = append(s.configured, f.Name), append(s.inFile, f.Name)
			err = set(f, s.File+": "+key(f.Name), value)
		}
	})
	return err
}

// names lists the flags of all commands.
func names(root *cobra.Command) []string {
	var names []string
	add := func(f *pflag.Flag) {
		if !slices.Contains(flagOnly, f.Name) && !slices.Contains(names, f.Name) {
			names = append(names, f.Name)
		}
	}
	root.PersistentFlags().VisitAll(add)
	for _, c := range root.Commands() {
		if c.Name() != "completion" && c.Name() != "help" {
			c.LocalNonPersistentFlags().VisitAll(add)
		}
	}
	return names
}

// fromVariables returns the values of variables by flag. It refuses unknown variables with our prefix: a misspelt limit
// must not be ignored.
func fromVariables(known func() []string, environ []string) (map[string]string, error) {
	flags := map[string]string{}
	var names []string // without the prefix
	out := map[string]string{}
	for _, kv := range environ {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(otherVariables, name) {
			continue
		}
		if names == nil {
			for _, name := range otherVariables {
				names = append(names, strings.TrimPrefix(name, prefix))
			}
			for _, flag := range known() {
				flags[Variable(flag)] = flag
				names = append(names, strings.TrimPrefix(Variable(flag), prefix))
			}
		}
		flag, ok := flags[name]
		if !ok {
			near := nearest.Name(strings.TrimPrefix(name, prefix), names)
			if near != "" {
				near = prefix + near
			}
			return nil, unknown("variable", "environment", name, near)
		}
		if value != "" { // empty means unset
			out[flag] = value
		}
	}
	return out, nil
}

func unknown(what, where, name, near string) error {
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: where, Msg: fmt.Sprintf("unknown %s %.64q", what, name),
		Fix: "fumehood run --help"}
	if near != "" {
		e.Fix = "did you mean " + near + "?"
	}
	return e
}

// readFile reads the configuration file into lists of texts by key. The default file may be missing.
func (s *Settings) readFile(known func() []string, env Environment) (map[string][]string, error) {
	named := s.File != ""
	if !named {
		dir := env.ConfigDir()
		if dir == "" {
			return nil, nil
		}
		s.File = filepath.Join(dir, "config.toml")
	}
	text, err := hostfiles.ReadTrusted(s.File, named)
	if os.IsNotExist(err) && !named {
		return nil, nil
	}
	if err != nil {
		return nil, hostfiles.Error("configuration", err)
	}
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		return nil, hostfiles.Error(s.File, err)
	}
	var keys []string
	for _, flag := range known() {
		if flag != "config" {
			keys = append(keys, key(flag))
		}
	}
	out := map[string][]string{}
	for key, value := range values {
		if !slices.Contains(keys, key) {
			return nil, unknown("key", s.File, key, nearest.Name(key, keys))
		}
		if out[key], err = texts(value); err != nil {
			return nil, hostfiles.Error(s.File+": "+key, err)
		}
	}
	return out, nil
}

// texts turns a TOML value into texts for a flag.
func texts(value any) ([]string, error) {
	switch v := value.(type) {
	case string:
		return []string{v}, nil
	case bool, int64, float64:
		return []string{fmt.Sprint(v)}, nil
	case []any:
		out := []string{} // an empty list is set, too
		for _, element := range v {
			text, err := texts(element)
			if err != nil || len(text) != 1 {
				return nil, errors.New("a list may contain only texts and numbers")
			}
			out = append(out, text[0])
		}
		return out, nil
	}
	return nil, errors.New("must be a text, a number, true or false, or a list")
}

// splitList splits the value of a variable for repeatable flags: names at commas, everything else at line ends.
func splitList(f *pflag.Flag, text string) []string {
	switch f.Value.Type() {
	case "stringSlice":
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	case "stringArray":
		return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	}
	return []string{text}
}

func set(f *pflag.Flag, source string, values []string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		f.Changed = true
		return list.Replace(values)
	}
	if len(values) != 1 {
		return sandbox.Invalidf(source, "must be one value, not a list")
	}
	if err := f.Value.Set(values[0]); err != nil {
		return InvalidValue(source, f, values[0], err)
	}
	f.Changed = true
	return nil
}

// InvalidValue reports an invalid value of a flag in plain words, not those of package strconv. source names the flag,
// the variable or the key.
func InvalidValue(source string, f *pflag.Flag, value string, err error) error {
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: source}
	var classed *sandbox.Error
	if errors.As(err, &classed) {
		e.Msg, e.Fix = classed.Msg, classed.Fix
		return e
	}
	switch f.Value.Type() {
	case "int", "uint64":
		e.Msg = fmt.Sprintf("%.40q is not a whole number", value)
	case "duration":
		e.Msg = fmt.Sprintf("%.40q is not a duration; write it like 30s", value)
	case "bool":
		e.Msg = fmt.Sprintf("%.40q is neither true nor false", value)
	default:
		e.Err = err
	}
	return e
}
