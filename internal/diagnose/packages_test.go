package diagnose_test

import (
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/lang"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPackageHints: a hint offers packages in the way that each face and language has, and none where no package would
// help.
func TestPackageHints(t *testing.T) {
	none, auto := sandbox.Packages{}, sandbox.Packages{Auto: true}
	const python, node = "ModuleNotFoundError: No module named ", "Error: Cannot find module "
	const cannot = "packages cannot be installed here. Use another module"
	for _, c := range []struct {
		language, stderr string
		asked            sandbox.Packages
		cli, http, tool  string
	}{
		{"python", python + "'yaml.x'", none, "before the run, add --packages auto. Code",
			`add "packages": ["auto"]. Code`, "before the run, write a line %pip install pyyaml in the code. Code"},
		{"python", python + "'yaml.x'", auto, "auto skips it. To install it before the " +
			"run, add --packages pyyaml.", `add "packages": ["pyyaml"].`, "%pip install pyyaml"},
		{"python", python + "'_x'", auto, "add --packages NAME.", `["NAME"]`, "%pip install NAME in"},
		{"javascript", node + "'lodash/fp'", none, "add --packages auto.", `["auto"]`, cannot},
		{"typescript", node + "'@s/x.js/y'", auto, "add --packages @s/x.js.", `["@s/x.js"]`, cannot},
		{"python", "fatal: no yaml", auto, "see stderr. Optional packages were not " +
			"installed: pyyaml, rich. To install one, add --packages NAME.", `add "packages": ["NAME"].`, "pyyaml, " +
			"rich."},
		{"javascript", node + "'./util'\nRequire stack:\n- /workspace/main.js", none, "A file was not found: only " +
			"files that were sent", `Send it in "files".`, "with write_file."},
		{"perl", python + "'x'", none, cannot, cannot, cannot},
		{"", python + "'x'", none, cannot, cannot, cannot},
		{"python", python + "'tkinter'", none, "The module tkinter belongs to the standard library, in " +
			"Debian package python3-tk, which", "python3-tk", "python3-tk"},
		{"python", python + "'distutils.core'", auto, "Debian package python3-distutils, which", "python3-distutils",
			"python3-distutils"},
		{"", python + "'_gdbm'", none, "Debian package python3-gdbm, which", "python3-gdbm", "python3-gdbm"},
		{"javascript", node + "'tkinter'", none, "add --packages auto.", `["auto"]`, cannot},
		{"python", "ERROR: No matching distribution found for x", none, "Packages for Python 3 are installed " +
			"before its code runs: add --packages NAME.", `add "packages": ["NAME"].`, "%pip install NAME in the " +
			"code."},
		{"bash", "main.sh: line 1: pip: command not found", none, "Packages for Python 3 are installed before its " +
			"code runs: add", "Python 3", "%pip install NAME"},
		{"javascript", "npm error code EAI_AGAIN", none, "npm cannot install anything: a sandbox has no network. " +
			"Packages for JavaScript (Node) are", `["NAME"]`, "read-only. Use what is there"},
		{"bash", "main.sh: line 1: apt-get: command not found", none, "read-only. Use what is there", "Use what",
			"Use what"},
	} {
		f := diagnose.Facts{Offer: diagnose.Offer{Languages: lang.All(), Packages: true},
			Request: &sandbox.Request{Packages: c.asked}}
		f.Result = &sandbox.Result{Status: sandbox.StatusFailed, ExitCode: 1,
			Stderr: sandbox.Captured{Head: []byte(c.stderr)},
			Requested: sandbox.Spec{Limits: sandbox.DefaultLimits,
				Network: sandbox.NetworkPolicy{Mode: sandbox.NetworkNone}}}
		if c.asked.Auto {
			f.Optional = []string{"pyyaml", "rich"}
		}
		for _, known := range lang.All() {
			if known.Name == c.language {
				f.Language = &known
			}
		}
		hints := diagnose.Hints(&f)
		for i, want := range []string{c.cli, c.http, c.tool} {
			if got := []wording.Face{wording.CommandLine, wording.HTTP,
				wording.Tool}[i].Hint(hints); !strings.Contains(got, want) {
				t.Errorf("%s: %s: %q does not say %q", c.language, c.stderr, got, want)
			}
		}
	}
}
