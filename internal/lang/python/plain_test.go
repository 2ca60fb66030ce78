package python

import (
	"strings"
	"testing"

	"github.com/glovebox-dev/glovebox/sandbox"
)

func TestNeedsNone(t *testing.T) {
	for code, want := range map[string]bool{
		"print(1)": true,
		"import os, sys as s, os.path\nfrom json import loads\ndef f():\n    import re": true,
		"import numpy":                                 false,
		"import os, numpy":                             false,
		"from numpy import array":                      false,
		"x = 1; import numpy":                          false,
		"if x: import os":                              false, // a closer look costs only time
		"__import__('numpy')":                          false,
		"import importlib\nimportlib.import_module(n)": false,
		"from . import x":                              false,
		"import os, \\\n  numpy":                       false,
		"import os; import numpy":                      false,
		"import os\\\n, numpy":                         false,
		"%pip install x":                               false,
		"# /// script\n# ///":                          false,
	} {
		if got := needsNone([]byte(code), nil); got != want {
			t.Errorf("%q: %v", code, got)
		}
	}
	if line := "import os\n"; !needsNone([]byte(strings.Repeat(line, maxStatements)), nil) || needsNone([]byte(strings.Repeat(line, maxStatements+1)), nil) {
		t.Error("the bound on statements is not kept")
	}
	if line := "#3456789\n"; !needsNone([]byte(strings.Repeat(line, maxGlance/len(line))), nil) || needsNone([]byte(strings.Repeat(line, maxGlance/len(line)+1)), nil) {
		t.Error("the bound on bytes is not kept")
	}
	if needsNone([]byte("import os"), []sandbox.File{{Path: "requirements.txt"}}) {
		t.Error("files are not looked at")
	}
}
