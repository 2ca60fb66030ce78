package python

import (
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/sandbox"
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

// What imports, as it is mostly written: statement is one on lines of its own, with all it imports. attempt is a try statement that imports, and
// goes on without what is not there. asks is a word of whatever imports.
var (
	statement = sync.OnceValue(func() *regexp.Regexp {
		const name, blank, gap = `[A-Za-z_][A-Za-z0-9_]*`, `[ \t]`, `(?:[ \t\r\n]|#[^\n]*\n)*`
		const module = name + `(?:\.` + name + `)*`
		list := func(one, between string) string {
			one += `(?:` + blank + `+as` + blank + `+` + name + `)?`
			return one + `(?:` + between + `,` + between + one + `)*`
		}
		return regexp.MustCompile(`^` + blank + `*(?:import` + blank + `+(` + list(module, blank+`*`) + `)|from` + blank + `+(` + module + `)` + blank + `+import(?:` +
			blank + `+(` + list(name, blank+`*`) + `)|` + blank + `*\(` + gap + `(` + list(name, gap) + `)` + gap + `,?` + gap + `\)))` + endOfLine)
	})
	attempt = sync.OnceValue(func() *regexp.Regexp {
		const line, set = `[ \t]+(?:`, `[A-Za-z_][A-Za-z0-9_]*[ \t]*=[ \t]*(?:True|False|None)`
		return regexp.MustCompile(`^(try:` + endOfLine + `(?:` + line + `(?:import|from)[ \t][^\n]*\n|` + set + endOfLine + `))+` +
			`except[ \t]+(?:ImportError|ModuleNotFoundError)(?:[ \t]+as[ \t]+[A-Za-z0-9_]+)?:` + endOfLine + line + `pass|` + set + `)` + endOfLine + `)(?:[ \t\r]*\n)*(?:[^ \t\r\n#]|\z)`)
	})
	comment = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`#[^\n]*`) })
	asks    = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\bimport\b|__import__|import_module`) })
	try     = sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(`\btry\b`) })
)

const endOfLine = `[ \t\r]*(?:#[^\n]*)?(?:\n|\z)`

// unclear reports what takes the syntax tree to understand it.
func unclear(code string) bool {
	return strings.ContainsAny(code, "\f\v") || strings.Contains(code, "\\\n") || strings.Contains(code, "\\\r") || strings.Count(code, "\r") != strings.Count(code, "\r\n") ||
		strings.Contains(code, "/// script") || strings.Contains(code, "install")
}

// imports lists what code imports, where plain statements alone do that: the syntax tree, which takes an interpreter many times longer, would say
// the same. It is nil where that is not so.
func imports(code []byte) (found []sandbox.Import) {
	all := string(code)
	if len(all) > maxGlance || unclear(all) {
		return nil
	}
	guards := sync.OnceValue(func() bool { // what is indented may be optional
		return strings.Contains(all, "TYPE_CHECKING") || strings.Contains(all, "try") && try().MatchString(all)
	})
	open, number := "", 1
	attempted := len(all) // how much is left behind the attempt
	for rest := all; rest != ""; {
		line, _, _ := strings.Cut(rest, "\n")
		if open == "" && strings.HasPrefix(line, "try:") {
			if m := attempt().FindStringSubmatch(rest); m != nil && !strings.Contains(m[1], "pip") { // which a handler may call
				attempted = len(rest) - len(m[1])
			}
		}
		end := min(len(line)+1, len(rest))
		if strings.Contains(line, "import") && asks().MatchString(line) && !(open == "" && strings.HasPrefix(strings.TrimSpace(line), "#")) {
			names, length := readImport(rest, number)
			optional, indented := len(rest) > attempted, line[0] == ' ' || line[0] == '\t'
			if open != "" || len(names) == 0 || len(found)+len(names) > maxStatements || indented && !optional && guards() {
				return nil
			}
			for i := range names {
				names[i].Optional = optional
			}
			found, end = append(found, names...), length
		}
		open = openString(open, rest[:end])
		number += strings.Count(rest[:end], "\n")
		rest = rest[end:]
	}
	return found
}

// readImport reads the statement at the start of a text: what it imports, and its length. There are no names if it is not as simple as that.
func readImport(text string, line int) (names []sandbox.Import, length int) {
	m := statement().FindStringSubmatch(text)
	if m == nil || len(asks().FindAllString(m[0], 2)) > 1 {
		return nil, 0
	}
	from := m[2]
	if from != "" {
		from += "."
	}
	for one := range strings.SplitSeq(comment().ReplaceAllString(m[1]+m[3]+m[4], ""), ",") {
		names = append(names, sandbox.Import{Name: from + strings.Fields(one)[0], Line: line})
	}
	return names, len(m[0])
}
