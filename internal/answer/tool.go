package answer

import (
	"cmp"
	"strconv"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Tool speaks to a model that calls a tool. It has few parameters; all else is the choice of whoever runs the server.
var Tool = Face{
	raise: func(name sandbox.LimitName, value string) string {
		to := ""
		if value != "" {
			to = " to " + value
		}
		if name == sandbox.LimitTimeout {
			return "raise timeout_s" + to
		}
		return "have the operator raise " + limitFlags[name] + to
	},
	number: func(name sandbox.LimitName, value int64) string {
		if name == sandbox.LimitTimeout {
			return HTTP.number(name, value)
		}
		return sandbox.FormatLimit(name, value)
	},
	backend: func(name string) string { return "have the operator choose " + strconv.Quote(name) },
	image:   func(name string) string { return "have the operator choose " + strconv.Quote(name) },
	waive: func(names []sandbox.LimitName) string {
		return "have the operator accept it with --allow-unenforced " + joined(names, func(name sandbox.LimitName) string { return string(name) }, ",")
	},
	input: `in "stdin" of run_command`,
	file:  "with write_file",
	allow: func(string) string { return "" },
	reach: func(_ *sandbox.Hint, target string) string {
		return "have the operator allow it with --allow " + target
	},
	packages: func(h *sandbox.Hint) string {
		if !h.InCode {
			return ""
		}
		return "write a line %pip install " + cmp.Or(h.Package, "NAME") + " in the code"
	},
	param: func(op string) string {
		if op == "limits.timeout" {
			return "timeout_s"
		}
		return fieldOf(op)
	},
}
