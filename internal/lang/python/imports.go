package python

import (
	"path"
	"regexp"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/lang/lex"
	"github.com/fumehood-dev/fumehood/internal/lang/trace"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// standard holds the modules that every Python since 3.9 has, however it is packaged.
var standard = sync.OnceValue(func() map[string]bool {
	all := map[string]bool{}
	for name := range strings.FieldsSeq(`abc argparse array ast asyncio atexit base64 bdb binascii bisect builtins bz2
		cProfile calendar cmath cmd code codecs codeop collections colorsys compileall concurrent configparser
		contextlib contextvars copy copyreg csv dataclasses datetime decimal difflib dis doctest email encodings enum
		errno faulthandler fcntl filecmp fileinput fnmatch fractions ftplib functools gc genericpath getopt getpass
		gettext glob graphlib grp gzip hashlib heapq hmac html http imaplib importlib inspect io ipaddress itertools
		json keyword linecache locale logging lzma mailbox marshal math mimetypes mmap modulefinder multiprocessing
		netrc ntpath nturl2path numbers opcode operator optparse os pathlib pdb pickle pickletools pkgutil platform
		plistlib poplib posix posixpath pprint profile pstats pty pwd py_compile pyclbr pydoc pydoc_data pyexpat queue
		quopri random re readline reprlib resource rlcompleter runpy sched secrets select selectors shelve shlex
		shutil signal site smtplib socket socketserver sqlite3 sre_compile sre_constants sre_parse ssl stat statistics
		string stringprep struct subprocess symtable sys sysconfig syslog tabnanny tarfile tempfile termios textwrap
		threading time timeit token tokenize trace traceback tracemalloc tty types typing unicodedata unittest urllib
		uuid warnings wave weakref webbrowser wsgiref xml xmlrpc zipapp zipfile zipimport zlib zoneinfo __future__`) {
		all[name] = true
	}
	return all
})

func isStandard(name string) bool {
	top, _, _ := strings.Cut(name, ".")
	return standard()[top]
}

// Bounds of code whose imports are found without an interpreter.
const (
	maxCode    = 256 << 10 // bytes
	maxImports = 1000
	maxName    = 200 // bytes of a module or a name
)

// needsNone reports whether code surely imports only the standard library, and its files list no requirements.
func needsNone(code []byte, files []sandbox.File) bool {
	for _, f := range files {
		switch path.Ext(f.Path) {
		case ".py", ".txt", ".toml":
			return false
		}
	}
	found, complete := statedImports(string(code))
	for _, i := range found {
		if !isStandard(i.Name) {
			return false
		}
	}
	return complete
}

// imports lists the imports of code, or nothing if only an interpreter can determine them. A survey finds the same
// imports.
func imports(code []byte) []sandbox.Import {
	if found, complete := statedImports(string(code)); complete {
		return found
	}
	return nil
}

// absolute matches the name of an import that is not relative.
var absolute = trace.Pattern(`^[A-Za-z_][A-Za-z0-9_.]*(?:\.\*)?$`)

// guard matches a word that can make an import optional.
var guard = trace.Pattern(`\btry\b|TYPE_CHECKING`)

// attempt matches a try statement that imports, and continues without the modules that are missing.
var attempt = sync.OnceValue(func() *regexp.Regexp {
	const (
		endOfLine = `[ \t\r]*(?:#[^\n]*)?(?:\n|\z)`
		line      = `[ \t]+(?:`
		set       = `[A-Za-z_][A-Za-z0-9_]*[ \t]*=[ \t]*(?:True|False|None)`
	)
	return regexp.MustCompile(`^(try:` + endOfLine +
		`(?:` + line + `(?:import|from)[ \t][^\n]*\n|` + set + endOfLine + `))+` +
		`except[ \t]+(?:ImportError|ModuleNotFoundError)(?:[ \t]+as[ \t]+[A-Za-z0-9_]+)?:` + endOfLine +
		line + `pass|` + set + `)` + endOfLine + `)(?:[ \t\r]*\n)*(?:[^ \t\r\n#]|\z)`)
})

// statedImports lists the names in import statements. The list is incomplete if the code imports by calls or
// relatively, lists requirements, installs packages, or has conditional imports or an f-string of unclear end.
func statedImports(code string) (found []sandbox.Import, complete bool) {
	if code = strings.TrimPrefix(code, "\ufeff"); len(code) > maxCode {
		return nil, false
	}
	for _, word := range []string{"__import__", "import_module", "/// script", "install"} {
		if strings.Contains(code, word) {
			return nil, false
		}
	}
	if !strings.Contains(code, "import") {
		return nil, true
	}
	if strings.Count(code, "\r") != strings.Count(code, "\r\n") {
		return nil, false
	}
	guarded, attempted := guard().MatchString(code), 0
	line, counted := 1, 0
	tokens := lex.Python(code)
	if tokens.Unclear {
		return nil, false
	}
	for i := range tokens.Imports {
		name := i.Module
		if i.Name != "" && len(name) <= maxName {
			name += "." + i.Name
		}
		if i.Malformed || len(name) > maxName || len(found) == maxImports || !absolute().MatchString(name) {
			return nil, false
		}
		at := int(i.Start.At)
		line, counted = line+strings.Count(code[counted:at], "\n"), at
		if guarded && at > attempted && at > 0 && code[at-1] != '\n' && !isStandard(name) {
			try := strings.LastIndex(code[:at], "\ntry:") + 1
			m := attempt().FindStringSubmatch(code[try:])
			if m == nil || try+len(m[1]) < at || strings.Contains(m[1], "pip") { // a handler may install
				return nil, false
			}
			attempted = try + len(m[1])
		}
		found = append(found, sandbox.Import{Name: name, Line: line, Optional: at < attempted})
	}
	return found, true
}
