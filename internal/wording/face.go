package wording

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Face has the phrases of one interface of Fumehood. They fit into the middle of a sentence.
type Face struct {
	set   func(param, value string) string        // sets a parameter of the request; "" if callers cannot
	raise func(b sandbox.Bound) string            // raises a limit, to Raise if that is known
	waive func(limits []sandbox.LimitName) string // runs without limits
	allow func(target string) string              // lets a run reach a target
	// makes a sandbox that may reach a target; nil if callers make none
	recreate func(target string) string
	allowNow string                                  // lets an existing sandbox reach a target; "" if callers cannot
	bind     func(m sandbox.NetworkMisplaced) string // lets a secret go into a place of requests
	packages func(o sandbox.Offer) string            // requests packages; "" if callers cannot
	Param    func(op string) string                  // names a part of the request, or a step that failed
	serve    string                                  // runs a server
	// the languages to choose from; "" if callers may name any
	languages string
	file      string                  // sends a file
	notes     map[sandbox.Note]string // fixes as phrases, and hints that differ among the faces
}

// CommandLine speaks of flags.
var CommandLine = Face{
	set: func(param, value string) string {
		if name, ok := flagsOfFields[param]; ok {
			return strings.TrimSuffix(name+" "+value, " ")
		}
		return flag(param, value)
	},
	raise: func(b sandbox.Bound) string {
		value := "N"
		raise, second := b.Raise, int64(time.Second)
		if b.Limit == sandbox.LimitTimeout && raise > 0 && raise%second == 0 {
			value = strconv.FormatInt(raise/second, 10) + "s"
		} else if b.Raise > 0 {
			value = sandbox.FormatLimit(b.Limit, b.Raise)
		}
		return "raise it: " + limitFlag(b.Limit, value)
	},
	waive: func(limits []sandbox.LimitName) string {
		return flag("allow_unenforced", joined(limits, limitName, ",")) +
			" (for all runs: allow_unenforced = [" + joined(limits, quotedLimit, ", ") + "] in the configuration file)"
	},
	allow:    func(target string) string { return "allow it with --allow " + target },
	recreate: func(target string) string { return "make a sandbox with fumehood create --allow " + target },
	bind:     func(m sandbox.NetworkMisplaced) string { return "add it: " + bindFlag(m) },
	packages: func(o sandbox.Offer) string { return "add --packages " + requirement(o) },
	Param: func(op string) string {
		op, _, _ = strings.Cut(op, "[") // the message quotes which of the list it is
		return cmp.Or(flagsOfFields[field(op)], op)
	},
	serve: "run it in a living sandbox, with fumehood exec --detach",
	file:  "with --file PATH",
	notes: map[sandbox.Note]string{
		sandbox.FixSendFile:     "send the file with --file PATH",
		sandbox.FixCreate:       "create it: fumehood create --name NAME; fumehood ps lists the living sandboxes",
		sandbox.FixListRuns:     "fumehood ps NAME lists the runs of the sandbox",
		sandbox.FixListLiving:   "fumehood ps lists the living sandboxes",
		sandbox.FixListContexts: "fumehood ps shows the contexts of the sandbox",
		sandbox.FixSendKey:      "--key-file FILE, or FUMEHOOD_KEY=KEY",
		sandbox.FixCheckHost:    "fumehood doctor shows what this host can enforce, and the fix for the rest",
		sandbox.FixPrune:        "free some space: fumehood deps prune",
		sandbox.HintNoInput:     "It read from stdin, which is empty. Give it input with -i or --stdin FILE.",
		sandbox.HintTerminal: "Code cannot create terminals. Run the program without one, or allow them: " +
			"--terminals.",
	},
}

// REPL is the CommandLine of fumehood repl, whose flags make the sandbox.
var REPL = func() Face {
	f := CommandLine
	f.recreate = nil
	return f
}()

// HTTP speaks of fields and paths.
var HTTP = Face{
	set: func(param, value string) string {
		if list, ok := strings.CutPrefix(param, "network."); ok {
			return networkList(list, value)
		}
		if !slices.Contains([]string{"backend", "image", "allow_build"}, param) {
			return ""
		}
		if value == "" {
			return strconv.Quote(param) + ": true"
		}
		return strconv.Quote(param) + ": " + strconv.Quote(value)
	},
	raise: func(b sandbox.Bound) string { return raiseField("limits.", b) },
	waive: func(limits []sandbox.LimitName) string {
		return `"allow_unenforced": [` + joined(limits, quotedLimit, ", ") + "]"
	},
	allow:    func(target string) string { return "allow it with " + networkField(target) },
	allowNow: "replace the rules by PATCH /v1/sandboxes/{id}",
	recreate: func(target string) string { return "make a sandbox with " + networkField(target) },
	bind: func(m sandbox.NetworkMisplaced) string {
		return `add "places": ["` + string(m.Place) + `"] to the secret`
	},
	packages: func(o sandbox.Offer) string { return `add "packages": [` + strconv.Quote(requirement(o)) + "]" },
	Param:    field,
	serve:    `run it in a living sandbox, with "background": true`,
	file:     `in "files"`,
	notes: map[sandbox.Note]string{
		sandbox.FixSendFile:     `send the file in "files"`,
		sandbox.FixCreate:       "create it: POST /v1/sandboxes",
		sandbox.FixListRuns:     "GET /v1/sandboxes/{id}/runs lists the runs of the sandbox",
		sandbox.FixListLiving:   "GET /v1/sandboxes lists the living sandboxes",
		sandbox.FixListContexts: "GET /v1/sandboxes/{id}/contexts lists the contexts of the sandbox",
		sandbox.FixSendKey:      "send it as Authorization: Bearer KEY, or as X-API-Key: KEY",
		sandbox.FixCheckHost:    "GET /v1/capabilities shows what this host can enforce",
		sandbox.FixPrune:        "have the operator free space in the cache of packages",
		sandbox.HintNoInput:     `It read from stdin, which is empty. Give it input in "stdin".`,
	},
}

// Tool speaks to a model that calls a tool. A tool has few parameters; the operator of the server chooses the others.
var Tool = Face{
	set: func(string, string) string { return "" },
	raise: func(b sandbox.Bound) string {
		if b.Limit == sandbox.LimitTimeout {
			return raiseField("", b)
		}
		way := "have the operator raise " + limitFlag(b.Limit, "")
		if b.Raise > 0 {
			way += " to " + sandbox.FormatLimit(b.Limit, b.Raise)
		}
		return way
	},
	waive: func(limits []sandbox.LimitName) string {
		return "have the operator accept it with --allow-unenforced " + joined(limits, limitName, ",")
	},
	allow: func(target string) string { return "have the operator allow it with --allow " + target },
	bind:  func(m sandbox.NetworkMisplaced) string { return "have the operator permit it with " + bindFlag(m) },
	packages: func(o sandbox.Offer) string {
		if !o.InCode {
			return `add "packages": [` + strconv.Quote(requirement(o)) + "]"
		}
		return "write a line %pip install " + cmp.Or(o.Package, "NAME") + " in the code"
	},
	Param: func(op string) string {
		if op == "limits.timeout" {
			return "timeout_s"
		}
		return field(op)
	},
	serve:     "start it with run_command and a & at its end",
	languages: "python, javascript or bash",
	file:      "with write_file",
	notes: map[sandbox.Note]string{
		sandbox.FixSendFile:     "send the file with write_file",
		sandbox.FixCreate:       "call the tool again, which makes a new sandbox",
		sandbox.FixListRuns:     "use the id of a run of this sandbox",
		sandbox.FixListLiving:   "name another sandbox",
		sandbox.FixListContexts: "use the name of a context of this sandbox",
		sandbox.FixSendKey:      "have the operator configure an API key",
		sandbox.FixCheckHost:    "have the operator run fumehood doctor",
		sandbox.FixPrune:        "have the operator free space in the cache of packages",
		sandbox.HintNoInput:     `It read from stdin, which is empty. Give it input in "stdin" of run_command.`,
	},
}

// field returns the name in the HTTP API of a part of a request: limits.memory_mib for limits.memory.
func field(op string) string {
	if name, ok := strings.CutPrefix(op, "limits."); ok {
		return "limits." + cmp.Or(api.LimitUnits[sandbox.LimitName(name)].Field, name)
	}
	return cmp.Or(fieldsOfParts[op], op)
}

// fieldsOfParts has the fields of parts of a request that the engine names differently.
var fieldsOfParts = map[string]string{"lifetime.idle": "lifetime.idle_s", "lifetime.ends_in": "lifetime.ends_in_s"}

// flagsOfFields has the flags of fields of the HTTP API.
var flagsOfFields = func() map[string]string {
	all := map[string]string{
		"allow_unenforced": "--allow-unenforced", "backend": "--backend", "image": "--image", "env": "--env",
		"return_files": "--return", "language": "--lang", "dir": "--workdir", "entry": "FILE", "file name": "FILE",
		"network": "--network", "network.mode": "--network", "network.allow": "--allow", "network.deny": "--deny",
		"max_network": "--max-network", "network_allow": "--network-allow",
		"network.secrets": "--secret", "network.inspect": "--inspect", "commands": "--allow-command",
		"lifetime.idle_s": "--idle", "lifetime.ends_in_s": "--max-age", "metadata": "--metadata", "root": "--root",
		"checks": "--checks", "packages": "--packages", "stdin": "--stdin", "files": "--file", "name": "--name",
		"context": "--context", "interactive": "--interactive", "volumes": "--volume",
	}
	for name, unit := range api.LimitUnits {
		all["limits."+unit.Field] = limitFlag(name, "")
	}
	return all
}()

func flag(param, value string) string {
	return strings.TrimSuffix("--"+strings.ReplaceAll(param, "_", "-")+" "+value, " ")
}

func bindFlag(m sandbox.NetworkMisplaced) string {
	return "--secret " + m.Secret + "@" + m.Host + ":" + string(m.Place)
}

func limitFlag(name sandbox.LimitName, value string) string {
	if name == sandbox.LimitOutput {
		name = "output_limit"
	}
	return flag(string(name), value)
}

func networkField(targets string) string { return networkList("allow", targets) }

func networkList(field, values string) string {
	return `"network": {"` + field + `": [` + joined(strings.Split(values, ","), strconv.Quote, ", ") + "]}"
}

// requirement is a requirement to request of an offer.
func requirement(o sandbox.Offer) string {
	if o.ByName {
		return cmp.Or(o.Package, "NAME")
	}
	return sandbox.PackagesAuto
}

// raiseField raises the field of a limit, which has a prefix.
func raiseField(prefix string, b sandbox.Bound) string {
	unit := api.LimitUnits[b.Limit]
	way := "raise " + prefix + unit.Field
	if b.Raise > 0 {
		way += " to " + strconv.FormatFloat(float64(b.Raise)/unit.Size, 'f', -1, 64)
	}
	return way
}

func limitName(name sandbox.LimitName) string { return string(name) }

func quotedLimit(name sandbox.LimitName) string { return strconv.Quote(string(name)) }

func joined[T any](list []T, words func(T) string, between string) string {
	out := make([]string, len(list))
	for i, v := range list {
		out[i] = words(v)
	}
	return strings.Join(out, between)
}
