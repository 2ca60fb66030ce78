package check

import (
	"fmt"
	"runtime"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/racing"
)

// bytesOfByte limits the allocations of a check for each byte of text. A token takes 24, and growing tables are copied.
const bytesOfByte = 100

// shape is hostile text of some n bytes.
type shape struct {
	name, language string
	text           func(n int) string
	costly         bool // it takes more looks than there are
}

func times(piece string) func(n int) string {
	return func(n int) string { return strings.Repeat(piece, n/len(piece)) }
}

func long(n int) string { return strings.Repeat("a", n) }

// numbered is n bytes of pieces with different names in them.
func numbered(n int, format string) string {
	var b strings.Builder
	for i := 0; b.Len() < n; i++ {
		fmt.Fprintf(&b, format, i)
	}
	return b.String()
}

// halves are texts of two parts, each of n/2 bytes.
func halves(parts func(n int) string) func(n int) string {
	return func(n int) string { return parts(n / 2) }
}

var shapes = []shape{
	{"imports on a line", "python", times("from a import b;"), false},
	{"imports after colons", "python", times("from a import b:"), false},
	{"names of a long module", "python", halves(func(n int) string {
		return "from " + long(n) + " import " +
			numbered(n, "a%x,")
	}), false},
	{"names in brackets", "python", halves(func(n int) string {
		return "from " + long(n) + " import (" +
			numbered(n, "a%x,\n")
	}), false},
	{"names of a known module", "python", func(n int) string {
		return "from os import " +
			numbered(n, "system as a%x,")
	}, false},
	{"new meanings of a name", "python", func(n int) string { return "from os import " + numbered(n, "a%x as eval,") },
		false},
	{"many modules", "python", func(n int) string { return "import " + numbered(n, "os as a%x,") }, false},
	{"a long dotted module", "python", func(n int) string { return "import " + strings.Repeat("os.", n/3) }, false},
	{"calls of a long module", "python", halves(func(n int) string {
		return "import " + long(n) + " as b\n" +
			times("b.c(")(n)
	}), false},
	{"calls by a long name", "python", halves(func(n int) string {
		return "import os as " + long(n) + "\n" +
			times("b.c(")(n)
	}), false},
	{"long names after loops", "python",
		func(n int) string { return strings.Repeat("while True:"+long(n/64)+"."+long(n/64)+"\n", 32) }, false},
	{"loops", "python", times("while True:"), false},
	{"nested calls", "python", times("eval("), true},
	{"short nested calls", "python", func(n int) string { return "from os import system as s\n" + times("s(")(n) },
		true},
	{"open calls", "python", times("open('/a"), false},
	{"dots", "python", times("a."), false},
	{"brackets", "python", times("("), false},
	{"empty strings", "python", times("''"), false},
	{"half strings", "python", times("'''\""), false},
	{"half lines", "python", times("\\\n'"), false},

	{"calls of a long module", "javascript", halves(func(n int) string {
		return "import b from '" + long(n) + "';" +
			times("b.c(")(n)
	}), false},
	{"names of a long module", "javascript", halves(func(n int) string {
		return "import {" + numbered(n, "a%x,") +
			"} from '" + long(n) + "'"
	}), false},
	{"all of a long module", "javascript", halves(func(n int) string {
		return "import " + numbered(n, "* as a%x,") +
			" from '" + long(n) + "'"
	}), false},
	{"names of a known module", "javascript", func(n int) string {
		return "import {" + numbered(n, "exec as a%x,") +
			"} from 'child_process'"
	}, false},
	{"names of a required module", "javascript", halves(func(n int) string {
		return "const {" + numbered(n, "a%x,") +
			"} = require('" + long(n) + "')"
	}), false},
	{"calls of a required module", "javascript", halves(func(n int) string {
		return "b = require('" + long(n) + "');" +
			times("b.c(")(n)
	}), false},
	{"half imports", "javascript", times("import a,"), false},
	{"half imports of names", "javascript", halves(func(n int) string { return times("import{")(n) + times("a,")(n) }),
		false},
	{"ends of imports", "javascript", times("from 'x'"), false},
	{"ends of requires", "javascript", times("} = require('x')"), false},
	{"names before requires", "javascript", halves(func(n int) string {
		return times("a,")(n) +
			times("} = require('x')")(n)
	}), false},
	{"calls of requires", "javascript", times("require('vm').a("), false},
	{"nested calls", "javascript", times("eval("), true},
	{"loops", "javascript", times("for(;;)"), false},
	{"templates", "javascript", times("`${"), false},
	{"open braces in templates", "javascript", func(n int) string { return "`${" + times("{}")(n) }, false},
	{"regular expressions", "javascript", times("/["), false},
	{"comments", "javascript", times("/*/"), false},

	{"substitutions after prefixes", "bash", halves(func(n int) string { return times("env ")(n) + times("$()")(n) }),
		false},
	{"backticks after prefixes", "bash", halves(func(n int) string { return times("env ")(n) + times("``")(n) }),
		false},
	{"prefixes", "bash", times("env "), false},
	{"pipes of prefixes", "bash", times("env|"), false},
	{"pipes", "bash", times("a|"), false},
	{"commands", "bash", times("a;"), false},
	{"words", "bash", times("a "), false},
	{"assignments", "bash", times("a=1 "), false},
	{"files", "bash", times(">/a "), false},
	{"substitutions", "bash", times("$(a)"), false},
	{"substitutions in quotes", "bash", times("\"$(a)\""), false},
	{"documents on a line", "bash", times("<<a "), false},
	{"documents", "bash", times("<<a\n"), false},
	{"documents before lines", "bash", halves(func(n int) string { return times("<<a ")(n) + times("\n")(n) }), false},
	{"bombs", "bash", times("a(){a|b&};"), false},
	{"half bombs", "bash", times(":(){ :|"), false},
	{"removals", "bash", func(n int) string { return "rm -r " + times("/ ")(n) }, false},
	{"long words", "bash", times("/dev/tcp/"), false},

	{"words of the rules", "", times("sk-AKIA ghp_ xoxb- stratum+ xmrig_ -----BEGIN PRIVATE KEY-----"), false},
}

// work checks a text and returns the bytes that it allocated.
func work(language, text string) (f *finder, allocated int) {
	f = &finder{of: map[string]int{}}
	code := []byte(text)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f.check(language, code)
	runtime.ReadMemStats(&after)
	return f, int(after.TotalAlloc - before.TotalAlloc)
}

func isUnchecked(found []sandbox.Finding) bool { return strings.Contains(shown(found), "unchecked!") }

// TestLinear: looks and memory are bounded by the length of hostile text, and twice the text takes some twice of them:
// slices grow in steps.
func TestLinear(t *testing.T) {
	const n, noise = 16 << 10, 256 << 10 // whatever else allocates, and what regular expressions keep
	for _, s := range shapes {
		work(s.language, s.text(n))
		one, before := work(s.language, s.text(n))
		two, after := work(s.language, s.text(2*n))
		if isUnchecked(two.found) != s.costly {
			t.Errorf("%s in %q: %d looks for %d bytes: %s", s.name, s.language, two.looks, len(two.code),
				shown(two.found))
		}
		if two.looks > 2*one.looks+two.mostLooks()/10 {
			t.Errorf("%s in %q: %d looks, and %d for twice the text", s.name, s.language, one.looks, two.looks)
		}
		if !racing.On && (after > 5*before/2+noise || after > bytesOfByte*len(two.code)+noise) {
			t.Errorf("%s in %q: %d bytes, and %d for twice the text of %d", s.name, s.language, before, after, n)
		}
	}
}

// TestLongest: the longest text of each shape, which a quadratic check would not get through in an hour.
func TestLongest(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: some seconds of reading")
	}
	for _, s := range shapes {
		f, allocated := work(s.language, s.text(MaxBytes-1000))
		if f.code == "" || f.looks > 2*f.mostLooks() || !racing.On && allocated > bytesOfByte*len(f.code) {
			t.Errorf("%s in %q: %d looks, %d bytes", s.name, s.language, f.looks, allocated)
		}
	}
}
