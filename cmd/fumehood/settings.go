package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"

	"github.com/BurntSushi/toml"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The flags of all commands are the settings. A flag's name determines its variable and its key in the configuration file: output-limit,
// FUMEHOOD_OUTPUT_LIMIT, output_limit.

const (
	prefix        = "FUMEHOOD_"
	maxConfigFile = 1 << 20 // bytes
)

// flagOnly are the flags that make no sense as settings.
var flagOnly = []string{"help", "code", "rm", "interactive", "tty", "in", "context", "name", "label", "detach", "all", "follow", "after",
	"force"}

// flagAlone marks a flag that is no setting, though another command's flag of that name is.
const flagAlone = "fumehood: alone"

// otherVariables have our prefix but are no settings.
var otherVariables = []string{
	"FUMEHOOD_LIBEXEC",   // the folder of the guest program
	"FUMEHOOD_KEY",       // the API key for a server
	"FUMEHOOD_EXECUTION", // marks the processes of an execution, which may run fumehood themselves
}

func variableOf(flag string) string {
	return prefix + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))
}
func keyOf(flag string) string { return strings.ReplaceAll(flag, "-", "_") }

// settle sets each flag of cmd that is not on the command line from its variable, else from the configuration file.
func (a *app) settle(cmd *cobra.Command) error {
	known := settingsOf(cmd.Root())
	variables, err := a.variables(known)
	if err != nil {
		return err
	}
	if path, ok := variables["config"]; ok && !cmd.Flags().Changed("config") {
		a.config = path
	}
	file, err := a.readConfig(known)
	if err != nil {
		return err
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		_, alone := f.Annotations[flagAlone]
		if err != nil || f.Changed || alone || slices.Contains(flagOnly, f.Name) {
			return
		}
		if text, ok := variables[f.Name]; ok {
			a.configured = append(a.configured, f.Name)
			err = apply(f, variableOf(f.Name), splitList(f, text))
		} else if value, ok := file[keyOf(f.Name)]; ok {
			a.configured = append(a.configured, f.Name)
			err = apply(f, a.config+": "+keyOf(f.Name), value)
		}
	})
	return err
}

// settingsOf lists the flags of all commands.
func settingsOf(root *cobra.Command) []string {
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

// variables returns the settings among the variables, by flag. It refuses unknown variables with our prefix: a misspelt limit must not be
// ignored.
func (a *app) variables(known []string) (map[string]string, error) {
	byVariable := map[string]string{}
	var names []string // without the prefix
	for _, name := range otherVariables {
		names = append(names, strings.TrimPrefix(name, prefix))
	}
	for _, flag := range known {
		byVariable[variableOf(flag)] = flag
		names = append(names, strings.TrimPrefix(variableOf(flag), prefix))
	}
	out := map[string]string{}
	for _, kv := range a.Environ() {
		name, value, _ := strings.Cut(kv, "=")
		if !strings.HasPrefix(name, prefix) || slices.Contains(otherVariables, name) {
			continue
		}
		flag, ok := byVariable[name]
		if !ok {
			near := nearest.Name(strings.TrimPrefix(name, prefix), names)
			if near != "" {
				near = prefix + near
			}
			return nil, unknownName("variable", "environment", name, near)
		}
		if value != "" { // empty means unset
			out[flag] = value
		}
	}
	return out, nil
}

func unknownName(what, where, name, near string) error {
	e := &sandbox.Error{Kind: sandbox.Invalid, Op: where, Msg: fmt.Sprintf("there is no %s %.64q", what, name),
		Fix: "fumehood run --help"}
	if near != "" {
		e.Fix = "did you mean " + near + "?"
	}
	return e
}

// readConfig reads the configuration file into lists of texts by key. The default file may be missing.
func (a *app) readConfig(known []string) (map[string][]string, error) {
	named := a.config != ""
	if !named {
		dir, ok := a.configDir()
		if !ok {
			return nil, nil
		}
		a.config = filepath.Join(dir, "config.toml")
	}
	text, err := readConfigFile(a.config, named)
	if os.IsNotExist(err) && !named {
		return nil, nil
	}
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "configuration", Err: err}
	}
	var values map[string]any
	if err := toml.Unmarshal(text, &values); err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: a.config, Err: err}
	}
	keys := make([]string, 0, len(known))
	for _, flag := range known {
		if flag != "config" {
			keys = append(keys, keyOf(flag))
		}
	}
	out := map[string][]string{}
	for key, value := range values {
		if !slices.Contains(keys, key) {
			return nil, unknownName("key", a.config, key, nearest.Name(key, keys))
		}
		if out[key], err = texts(value); err != nil {
			return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: a.config + ": " + key, Err: err}
		}
	}
	return out, nil
}

// readConfigFile reads a file, which only trusted users may write: it can weaken every sandbox. named means that the user named it.
func readConfigFile(path string, named bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not wait for a pipe
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxConfigFile {
		return nil, fmt.Errorf("%s is not a regular file of at most %s", path, sandbox.FormatBytes(maxConfigFile))
	}
	if who, fix := writers(info, named); who != "" {
		return nil, &sandbox.Error{Op: path, Msg: who, Fix: fix + path}
	}
	return io.ReadAll(io.LimitReader(f, maxConfigFile))
}

// texts turns a TOML value into texts for flags.
func texts(value any) ([]string, error) {
	switch v := value.(type) {
	case string:
		return []string{v}, nil
	case bool, int64, float64:
		return []string{fmt.Sprint(v)}, nil
	case []any:
		var out []string
		for _, element := range v {
			text, err := texts(element)
			if err != nil || len(text) != 1 {
				return nil, fmt.Errorf("a list may hold only texts and numbers")
			}
			out = append(out, text[0])
		}
		return out, nil
	}
	return nil, fmt.Errorf("must be a text, a number, true or false, or a list")
}

// splitList splits the value of a variable for repeatable flags: names at commas, all else at line ends.
func splitList(f *pflag.Flag, text string) []string {
	switch f.Value.Type() {
	case "stringSlice":
		return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' || r == '\n' })
	case "stringArray":
		return strings.FieldsFunc(text, func(r rune) bool { return r == '\n' })
	}
	return []string{text}
}

func apply(f *pflag.Flag, source string, values []string) error {
	if list, ok := f.Value.(pflag.SliceValue); ok {
		f.Changed = true
		return list.Replace(values)
	}
	if len(values) != 1 {
		return sandbox.Invalidf(source, "must be one value, not a list")
	}
	if err := f.Value.Set(values[0]); err != nil {
		return wrongValue(source, f, values[0], err)
	}
	f.Changed = true
	return nil
}
