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
		{"python", python + "'yaml.x'", auto, "auto does not find it. To install it before " +
			"the run, add --packages pyyaml.", `add "packages": ["pyyaml"].`, "%pip install pyyaml"},
		{"python", python + "'_x'", auto, "add --packages NAME.", `["NAME"]`, "%pip install NAME in"},
		{"javascript", node + "'lodash/fp'", none, "add --packages auto.", `["auto"]`, `add "packages": ["auto"]`},
		{"typescript", node + "'@s/x.js/y'", auto, "add --packages @s/x.js.", `["@s/x.js"]`, `add "packages": ["@s/x.js"]`},
		{"python", "fatal: no yaml", auto, "Optional packages were not installed:" +
			" pyyaml, rich. To install one, add --packages NAME.", `add "packages": ["NAME"].`, "pyyaml, " +
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
		{"javascript", node + "'tkinter'", none, "add --packages auto.", `["auto"]`, `add "packages": ["auto"]`},
		{"python", "ERROR: No matching distribution found for x", none, "Packages for Python 3 are installed " +
			"before its code runs: add --packages NAME.", `add "packages": ["NAME"].`, "%pip install NAME in the " +
			"code."},
		{"bash", "main.sh: line 1: pip: command not found", none, "Packages for Python 3 are installed before its " +
			"code runs: add", "Python 3", "%pip install NAME"},
		{"javascript", "npm error code EAI_AGAIN", none, "npm cannot install anything: a sandbox has no network. " +
			"Packages for JavaScript (Node) are", `["NAME"]`, `add "packages": ["NAME"].`},
		{"python", "ImportError: sklearn needs to be installed in order to use this module", none,
			"add --packages scikit-learn.", `["scikit-learn"]`, "%pip install scikit-learn"},
		{"python", "ImportError: Missing optional dependency 'openpyxl'.  Use pip or conda to install openpyxl.", auto,
			"add --packages openpyxl.", `["openpyxl"]`, "%pip install openpyxl"},
		{"python", "ImportError: `Import openpyxl` failed.  Use pip or conda", none, "--packages openpyxl.",
			`["openpyxl"]`, "openpyxl"},
		{"python", "bs4.exceptions.FeatureNotFound: Couldn't find a tree builder with the features you requested: " +
			"lxml. Do you need to install a parser library?", none, "--packages lxml.", `["lxml"]`, "lxml"},
		{"python", "LookupError: \n  Resource punkt not found.\n  >>> nltk.download('punkt')\n", none,
			"allow it with --allow raw.githubusercontent.com; or use a root",
			`{"allow": ["raw.githubusercontent.com"]}`,
			"have the operator allow it with --allow raw"},
		{"python", "OSError: [E050] Can't find model 'en_core_web_sm'. It doesn't", none, "spaCy needs files",
			`allow": ` +
				`["github.com", "release`, "github.com"},
		{"python", "playwright._impl._errors.Error: BrowserType.launch: Executable doesn't exist at " +
			"/home/agent/.cache/" +
			"ms-playwright/chromium-1/chrome", none, "--allow cdn.playwright.dev", "cdn.playwright.dev", "Playwright"},
		{"python", "requests.exceptions.ConnectionError: HTTPSConnectionPool(host='api.example.com', port=443): Max " +
			"retries exceeded (Caused by NameResolutionError(", none, "allow it with --allow api.example.com.",
			`["api.example.com"]`, "--allow api.example.com"},
		{"javascript", "Error: getaddrinfo ENOTFOUND api.example.com", none, "--allow api.example.com.",
			"api.example.com",
			"api.example.com"},
		{"javascript", "Error: Could not locate the bindings file. Tried:\n → /node_modules/better-sqlite3/build/" +
			"better_sqlite3.node", auto, "better-sqlite3 has a native part that must be built when it is " +
			"installed, and " +
			"was not. To build it, add --packages better-sqlite3. Let it be built: --allow-build",
			`Let it be built: "allow_build": true`, "better-sqlite3 has a native part"},
		{"python", "UsageError: Line magic function `%sql` not found.", none, "The magic %sql is not supported", "%sql",
			"%sql"},
		{"python", "<cell 1>:3: UserWarning: Glyph 20013 (\\N{CJK UNIFIED IDEOGRAPH-4E2D}) missing from font(s) " +
			"DejaVu " +
			"Sans.", none, "the Debian package fonts-noto-cjk does.", "fonts-noto-cjk", "fonts-noto-cjk"},
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
