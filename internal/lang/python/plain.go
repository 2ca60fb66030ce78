package python

import (
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// standard are modules that every Python since 3.9 has, however it is packaged.
var standard = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for name := range strings.FieldsSeq(`abc argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2 cProfile calendar cmath cmd code codecs codeop collections colorsys
compileall concurrent configparser contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib dis doctest email encodings enum errno
faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass gettext glob graphlib grp gzip hashlib heapq
hmac html http imaplib importlib inspect io ipaddress itertools json keyword linecache locale logging lzma mailbox marshal math mimetypes mmap
modulefinder multiprocessing netrc ntpath nturl2path numbers opcode operator optparse os pathlib pdb pickle pickletools pkgutil platform plistlib
poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue quopri random re readline reprlib resource
rlcompleter runpy sched secrets select selectors shelve shlex shutil signal site smtplib socket socketserver sqlite3 sre_compile sre_constants
sre_parse ssl stat statistics string stringprep struct subprocess symtable sys sysconfig syslog tabnanny tarfile tempfile termios textwrap threading
time timeit token tokenize trace traceback tracemalloc tty types typing unicodedata unittest urllib uuid warnings wave weakref webbrowser wsgiref xml
xmlrpc zipapp zipfile zipimport zlib zoneinfo __future__`) {
		all[name] = true
	}
	return all
})

// importWord is the word wherever it stands; importLine is a statement at the start of a line that names whole modules.
var (
	importWord = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`import|/// script|install`) })
	importLine = sync.OnceValue(func() *regexp.Regexp {
		const module = `[A-Za-z_][A-Za-z0-9_.]*`
		const named = module + `(?:[ \t]+as[ \t]+[A-Za-z0-9_]+)?`
		return regexp.MustCompile(`(?m)^[ \t]*(?:import[ \t]+(` + named + `(?:[ \t]*,[ \t]*` + named + `)*)[ \t\r]*(?:#.*)?$|from[ \t]+(` + module + `)[ \t]+import\b)`)
	})
)

// Bounds of a glance; what is beyond them needs a closer look.
const (
	maxGlance     = 256 << 10 // bytes
	maxStatements = 1000      // that import; for imports, what they name
)

// needsNone reports whether code can only import the standard library, so that nobody has to look closer: each word "import" in it is that of a
// statement that names standard modules. It errs on the other side.
func needsNone(code []byte, files []sandbox.File) bool {
	for _, f := range files {
		switch path.Ext(f.Path) {
		case ".py", ".txt", ".toml":
			return false
		}
	}
	if len(code) > maxGlance {
		return false
	}
	lines := importLine().FindAllSubmatch(code, maxStatements+1)
	if len(lines) > maxStatements || len(importWord().FindAll(code, len(lines)+1)) != len(lines) {
		return false
	}
	for _, line := range lines {
		for one := range strings.SplitSeq(string(line[1])+string(line[2]), ",") {
			fields := strings.Fields(one)
			if top, _, _ := strings.Cut(fields[0], "."); !standard()[top] {
				return false
			}
		}
	}
	return true
}

// statement is one on a line of its own that imports, with all it imports; unclear is what takes the syntax tree to understand it.
var (
	statement = sync.OnceValue(func() *regexp.Regexp {
		const name = `[A-Za-z_][A-Za-z0-9_]*`
		const module = name + `(?:\.` + name + `)*`
		list := func(one string) string {
			one += `(?:[ \t]+as[ \t]+` + name + `)?`
			return `(` + one + `(?:[ \t]*,[ \t]*` + one + `)*)`
		}
		return regexp.MustCompile(`^[ \t]*(?:import[ \t]+` + list(module) + `|from[ \t]+(` + module + `)[ \t]+import[ \t]+` + list(name) + `)[ \t\r\n]*(?:#.*\n?)?$`)
	})
	unclear = sync.OnceValue(func() *regexp.Regexp {
		return regexp.MustCompile(`\btry\b|TYPE_CHECKING|/// script|install|\\\r?\n|[\f\v\r][^\n]`)
	})
)

// imports lists what code imports, where plain statements alone do that, and it needs all of it: the syntax tree, which takes an interpreter
// many times longer, would say the same. It is nil where that is not so.
func imports(code []byte) (found []sandbox.Import) {
	if len(code) > maxGlance || unclear().Match(code) {
		return nil
	}
	open, number := "", 0
	for line := range strings.Lines(string(code)) {
		number++
		words := strings.Count(line, "import")
		if within := open != ""; words > 0 {
			m := statement().FindStringSubmatch(line)
			if within || words > 1 || m == nil || len(found)+strings.Count(line, ",") >= maxStatements {
				return nil
			}
			of := m[2]
			if of != "" {
				of += "."
			}
			for one := range strings.SplitSeq(m[1]+m[3], ",") {
				found = append(found, sandbox.Import{Name: of + strings.Fields(one)[0], Line: number})
			}
		}
		open = openString(open, line)
	}
	return found
}
