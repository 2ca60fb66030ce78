package answer

import (
	"cmp"
	"errors"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Face has the phrases of one interface of Fumehood for what a caller can do. They fit into the middle of a sentence.
type Face struct {
	raise   func(name sandbox.LimitName, value string) string // raises a limit; value is as number renders it, or ""
	number  func(name sandbox.LimitName, value int64) string
	backend func(name string) string
	image   func(name string) string
	waive   func(names []sandbox.LimitName) string
	input   string // gives the program its standard input
	file    string // sends a file
	root    string // chooses a directory as root; "" if callers cannot
	allow   func(command string) string
	reach   func(h *sandbox.Hint, target string) string // lets the network reach a target

	packages func(h *sandbox.Hint) string // asks for packages; "" if callers cannot

	param     func(op string) string // names a part of a request, or a step that failed
	terminals string                 // lets code open terminals; "" where callers cannot

	kept bool // while hints are worded: the code was interrupted in its context, which stays
}

// CommandLine speaks of flags.
var CommandLine = Face{
	raise: func(name sandbox.LimitName, value string) string {
		return "raise it: " + limitFlags[name] + " " + cmp.Or(value, "N")
	},
	number: func(name sandbox.LimitName, value int64) string {
		if name == sandbox.LimitTimeout && value%int64(time.Second) == 0 {
			return strconv.FormatInt(value/int64(time.Second), 10) + "s"
		}
		return sandbox.FormatLimit(name, value)
	},
	backend: func(name string) string { return "--backend " + name },
	image:   func(name string) string { return "--image " + name },
	waive: func(names []sandbox.LimitName) string {
		return "--allow-unenforced " + joined(names, func(name sandbox.LimitName) string { return string(name) }, ",") +
			" (for all runs: allow_unenforced = [" + joined(names, func(name sandbox.LimitName) string { return strconv.Quote(string(name)) }, ", ") +
			"] in the configuration file)"
	},
	input: "with -i or --stdin FILE",
	file:  "with --file PATH",
	root:  "--root DIR",
	allow: func(command string) string { return "--allow-command " + command },
	reach: func(_ *sandbox.Hint, target string) string { return "allow it with --allow " + target },

	packages: func(h *sandbox.Hint) string { return "add --packages " + wanted(h) },

	param: func(op string) string {
		if name, ok := strings.CutPrefix(op, "limits."); ok && limitFlags[sandbox.LimitName(name)] != "" {
			return limitFlags[sandbox.LimitName(name)]
		}
		if name, _, ok := strings.Cut(op, "["); ok {
			op = name // the message quotes which of the list it is
		}
		return cmp.Or(flagsOfParams[op], op)
	},
	terminals: "--terminals",
}

// HTTP speaks of fields of the request.
var HTTP = Face{
	raise: func(name sandbox.LimitName, value string) string {
		way := "raise limits." + fieldsOfLimits[name].field
		if value != "" {
			way += " to " + value
		}
		return way
	},
	number: func(name sandbox.LimitName, value int64) string {
		return strconv.FormatFloat(float64(value)/fieldsOfLimits[name].unit, 'f', -1, 64)
	},
	backend: func(name string) string { return `"backend": ` + strconv.Quote(name) },
	image:   func(name string) string { return `"image": ` + strconv.Quote(name) },
	waive: func(names []sandbox.LimitName) string {
		return `"allow_unenforced": [` + joined(names, func(name sandbox.LimitName) string { return strconv.Quote(string(name)) }, ", ") + "]"
	},
	input: `in "stdin"`,
	file:  `in "files"`,
	allow: func(string) string { return "" },
	reach: func(h *sandbox.Hint, target string) string {
		way := `"network": {"allow": [` + strconv.Quote(target) + "]}"
		switch {
		case !h.Living:
			return "allow it with " + way
		case h.Code == sandbox.HintNoNetwork:
			return "make a sandbox with " + way
		}
		return "allow it by PATCH /v1/sandboxes/{id} with all rules anew, or make a sandbox with " + way
	},
	param: fieldOf,

	packages: func(h *sandbox.Hint) string { return `add "packages": [` + strconv.Quote(wanted(h)) + "]" },
}

// wanted is what to ask for, of packages.
func wanted(h *sandbox.Hint) string {
	if h.ByName {
		return cmp.Or(h.Package, "NAME")
	}
	return sandbox.PackagesAuto
}

var limitFlags = map[sandbox.LimitName]string{
	sandbox.LimitMemory: "--memory", sandbox.LimitCPUs: "--cpus", sandbox.LimitPids: "--pids", sandbox.LimitDisk: "--disk",
	sandbox.LimitInodes: "--inodes", sandbox.LimitOpenFiles: "--open-files", sandbox.LimitTimeout: "--timeout", sandbox.LimitOutput: "--output-limit",
}

// fieldsOfLimits are those of the API, by limit.
var fieldsOfLimits = func() map[sandbox.LimitName]limitUnit {
	all := map[sandbox.LimitName]limitUnit{}
	for _, f := range limitFields(new(api.Limits)) {
		all[f.name] = f
	}
	return all
}()

// Fix returns the fix of an error in one sentence, or "".
func (f Face) Fix(err error) string {
	var ways []string
	add := func(way string) {
		if way != "" {
			ways = append(ways, way)
		}
	}
	add(sandbox.FixOf(err))
	add(f.way(sandbox.HintOf(err)))
	if lacks := sandbox.UnenforcedOf(err); len(lacks) > 0 {
		add("run without: " + f.waive(lacks))
	}
	return strings.Join(ways, "; or ")
}

// way puts the hint of an error into words.
func (f Face) way(h sandbox.Hint) string {
	switch h.Code {
	case sandbox.FixSendFile:
		return "send the file " + f.file
	case sandbox.FixImage:
		if h.Name != "" {
			return "choose an image that has it: " + f.image(h.Name)
		}
		return "choose another image: " + f.image("NAME")
	case sandbox.FixRoot:
		if f.root == "" {
			return ""
		}
		return "choose a directory that has it: " + f.root
	case sandbox.FixBackend:
		return "choose another backend: " + joined(h.Names, f.backend, " or ")
	case sandbox.FixRaise:
		if h.Raise > 0 {
			return f.raise(h.Limit, f.number(h.Limit, h.Raise))
		}
		return f.raise(h.Limit, "")
	}
	return ""
}

func joined[T any](list []T, words func(T) string, between string) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = words(v)
	}
	return strings.Join(out, between)
}

// Text says what happened, without the fix, and names what was asked for as the face does.
func (f Face) Text(err error) string {
	var parts []string
	for err != nil {
		e, ok := err.(*sandbox.Error) //nolint:errorlint // a wrapped one is followed below, behind the words that wrap it
		if !ok {
			text := err.Error()
			var inner *sandbox.Error
			if errors.As(err, &inner) {
				if before, found := strings.CutSuffix(text, inner.Error()); found {
					text = strings.TrimSuffix(before, ": ")
				}
				err = inner
			} else {
				err = nil
			}
			parts = append(parts, text)
			continue
		}
		parts = append(parts, f.param(e.Op), e.Msg)
		err = e.Err
	}
	return strings.Join(slices.DeleteFunc(parts, func(part string) bool { return part == "" }), ": ")
}

// flagsOfParams are the flags of parts of a request, by the names that the engine has for them.
var flagsOfParams = map[string]string{
	"allow_unenforced": "--allow-unenforced", "backend": "--backend", "image": "--image", "env": "--env", "return_files": "--return", "language": "--lang",
	"network.mode": "--network", "network.allow": "--allow", "network.deny": "--deny", "dir": "--workdir", "entry": "FILE", "file name": "FILE",
}
