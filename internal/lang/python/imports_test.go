package python

import (
	"fmt"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

func TestNeedsNone(t *testing.T) {
	for code, want := range map[string]bool{
		"print(1)": true,
		"import os, sys as s, os.path\nfrom json import loads\ndef f():\n    import re": true,
		"import numpy":            false,
		"import os, numpy":        false,
		"from numpy import array": false,
		"x = 1; import numpy":     false,
		"if x: import os":         true,
		"try:\n  import json\nexcept ImportError:\n  json = None": true,
		"s = 1 + \\\n2\nfrom math import *":                       true,
		"\ufeffimport os":                                         true,
		"__import__('numpy')":                                     false,
		"import importlib\nimportlib.import_module(n)":            false,
		"from . import x":                                         false,
		"import os, \\\n  numpy":                                  false,
		"import os; import numpy":                                 false,
		"import os\\\n, numpy":                                    false,
		"%pip install x":                                          false,
		"# /// script\n# ///":                                     false,
	} {
		if got := needsNone([]byte(code), nil); got != want {
			t.Errorf("%q: %v", code, got)
		}
	}
	if line := "import os\n"; !needsNone([]byte(strings.Repeat(line, maxImports)), nil) ||
		needsNone([]byte(strings.Repeat(line, maxImports+1)), nil) {
		t.Error("the bound on statements is not kept")
	}
	if line := "#3456789\n"; !needsNone([]byte(strings.Repeat(line, maxCode/len(line))), nil) ||
		needsNone([]byte(strings.Repeat(line, maxCode/len(line)+1)), nil) {
		t.Error("the bound on bytes is not kept")
	}
	if needsNone([]byte("import os"), []sandbox.File{{Path: "requirements.txt"}}) {
		t.Error("files are not looked at")
	}
}

// TestImports: plain statements are understood as they stand, and whatever could be something else is left to the
// syntax tree.
func TestImports(t *testing.T) {
	for _, c := range [][2]string{
		{"import numpy as np, a.b\r\n\nfrom c.d import e as f, g # why\n",
			"[{numpy 1 false} {a.b 1 false} {c.d.e 3 false} {c.d.g 3 false}]"},
		{"def f():\n\timport x\ns = 'it'\n", "[{x 2 false}]"},
		{"try: import x\nexcept ImportError: pass", "[]"},
		{"try:\n  import x\nexcept ImportError: pass", "[]"},
		{"try:\n  import x\nexcept ImportError:\n  raise", "[]"},
		{"try:\n  import x\nexcept ImportError:\n  x = None\n  import y", "[]"},
		{"try:\n  import x\nexcept ImportError:\n  pass\n  # \n  exit()", "[]"},
		{"try:\n  import x\nexcept OSError:\n  pass", "[]"},
		{"try: # to\n  import x, x.y\n  X = True\nexcept ImportError as e: # why\n  X = False\n\nimport z",
			"[{x 2 true} {x.y 2 true} {z 7 false}]"},
		{"try:\n  import x\nexcept ModuleNotFoundError:\n  pass\nelse:\n  import y", "[]"},
		{"if TYPE_CHECKING:\n  import x", "[]"},
		{"s = \"\"\"\nimport x\n\"\"\"", "[]"},
		{"s = 'a\\\nimport x'", "[]"},
		{"import x; import y", "[{x 1 false} {y 1 false}]"},
		{"if 1: import x", "[{x 1 false}]"},
		{"from x import (\n  y, # import z\n  z as w,\n)\nimport v", "[{x.y 1 false} {x.z 1 false} {v 5 false}]"},
		{"from x import (\n  y, # why\n\n  z as w,\n)\nimport v", "[{x.y 1 false} {x.z 1 false} {v 6 false}]"},
		{"from x import(y)", "[{x.y 1 false}]"},
		{"from x import (y); import z", "[{x.y 1 false} {z 1 false}]"},
		{"from x import (y", "[]"},
		{"# import y is important\nimport x, important", "[{x 2 false} {important 2 false}]"},
		{"s = \"\"\"\n# import y\n\"\"\"\nimport x", "[{x 4 false}]"},
		{"import x\ntry: f()\nexcept E: pass\nimport y", "[{x 1 false} {y 4 false}]"},
		{"import x\ndef f():\n  try: import y\n  except E: pass", "[]"},
		{"def f():\n  try:\n    import y\n  except ImportError: pass", "[]"},
		{"from x import *", "[{x.* 1 false}]"},
		{"from . import x", "[]"},
		{"import x.", "[]"},
		{"__import__('x')", "[]"},
		{"import y\\\r\n, z", "[{y 1 false} {z 1 false}]"},
		{"import \u00e4", "[]"},
		{"import x y", "[]"},
		{"from x import (y,", "[]"},
		{"x = 1\rimport x", "[]"},
		{"!ls \"\"\"\nimport x", "[{x 2 false}]"},
		{"import x\n%pip install y", "[]"},
		{"import os\x0cimport x", "[]"},
		{`import x; s = f"{d["#"]}"; import y`, "[]"},
		{`import x; s = rF"{d['}'] + d["#"]}"; import y`, "[]"},
		{`import x; s = f"{d["'''"]}"` + "\nimport y", "[]"},
		{`import x; s = f"{'''a'}#"; import y #'''}"`, "[]"},
		{"import x; s = f'{\nd\n}'; import y", "[]"},
		{"import x; s = f'''{d # '''\n}'''; import y", "[]"},
		{`import x; s = f"{f'{d["#"]}'}"; import y`, "[]"},
		{`import x; s = f"{d["; import y; "]}"`, "[]"},
		{`import x; s = f"{{#}} {d['#'] or ''} {a:{w},.2f} \"#\" {{"; import y`, "[{x 1 false} {y 1 false}]"},
		{`import x; s = "{d["; t = b'{'; u = f''; import y`, "[{x 1 false} {y 1 false}]"},
	} {
		code, want := c[0], c[1]
		if got := fmt.Sprint(imports([]byte(code))); got != want {
			t.Errorf("%q: %s, want %s", code, got, want)
		}
	}
	lines, names := strings.Repeat("import x\n", maxImports+1), "import x"+strings.Repeat(",x", maxImports)
	if imports([]byte(lines)) != nil || imports([]byte(names)) != nil ||
		len(imports([]byte(lines[:len(lines)-len("import x\n")]))) != maxImports {
		t.Error("the bound on what is imported is not kept")
	}
}

// FuzzImports: whatever code holds, its imports are bounded, in order, and have names that JSON does not escape.
func FuzzImports(f *testing.F) {
	for _, seed := range []string{
		"import a.b as c, d\nfrom e import (f, # g\nh as i,)", "from .. import a",
		"try:\n  import a\nexcept ImportError:\n  pass\n",
		"if 1: import a; from b import *", "x = '''\nimport a\n'''", "%pip\n!ls (\nimport a", "import a\\\r\n, b",
	} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, code string) {
		found, complete := statedImports(code)
		lines, last := strings.Count(code, "\n")+1, 1
		for _, i := range found {
			if i.Line < last || i.Line > lines || i.Name == "" || len(i.Name) > 2*maxName ||
				strings.ContainsAny(i.Name, "\"\\\n ") {
				t.Errorf("%+v in %d lines", i, lines)
			}
			last = i.Line
		}
		if len(found) > maxImports || !complete && found != nil {
			t.Errorf("%d imports, complete: %t", len(found), complete)
		}
	})
}
