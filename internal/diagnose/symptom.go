package diagnose

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// systemSymptoms are the C library's messages of errors from limits, which occur in any language. The text comes from the program, so it
// serves only for advice. Language.Diagnose has what is specific to a language.
var systemSymptoms = []struct {
	text []string
	hint sandbox.Hint
}{
	{[]string{"No space left on device", "Disk quota exceeded"}, sandbox.Hint{Code: sandbox.HintLimit, Limit: sandbox.LimitDisk}},
	{[]string{"Too many open files"}, sandbox.Hint{Code: sandbox.HintLimit, Limit: sandbox.LimitOpenFiles}},
	{[]string{"Temporary failure in name resolution", "Network is unreachable", "Could not resolve host"}, sandbox.Hint{Code: sandbox.HintNoNetwork}},
	{[]string{"Cannot allocate memory"}, sandbox.Hint{Code: sandbox.HintMemory}},
	{[]string{"out of pty devices", "/dev/ptmx", "openpty", "forkpty"}, sandbox.Hint{Code: sandbox.HintTerminal}},
}

// forkSymptom is a fork or a thread that was refused. EAGAIN alone also means a socket that has nothing to read.
var forkSymptom = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(fork|clone|spawn|subprocess|thread)[^\n]{0,200}(\n[^\n]{0,200}){0,2}Resource temporarily unavailable`)
})

// pathSymptom finds the path in a message of the C library.
var pathSymptom = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(/[\w./@+-]+)['"]?: (No such file or directory|Read-only file system|Permission denied)`)
})

// symptom finds the likely cause of a failure in the program's output.
func (f *Facts) symptom() (sandbox.Hint, bool) {
	text := end(&f.Result.Stderr)
	vague := sandbox.Hint{}
	for _, h := range append(f.diagnose(text), systemHints(text)...) {
		h, ok := f.complete(h)
		switch {
		case !ok:
		case h.Code == sandbox.HintMissingFile: // any other symptom is closer to the cause
			if vague.Code == "" {
				vague = h
			}
		default:
			return h, true
		}
	}
	if vague.Code == "" && f.atProcessLimit() {
		return f.limitHint(sandbox.HintLimit, sandbox.LimitPids), true
	}
	if vague.Code == "" && f.Result.ExitCode == exitNotFound {
		vague.Code = sandbox.HintNoCommand
	}
	return vague, vague.Code != ""
}

// diagnose asks the languages, that of the execution first. The bytes are hostile.
func (f *Facts) diagnose(text string) (hints []sandbox.Hint) {
	if f.Language != nil && f.Language.Diagnose != nil {
		hints = f.Language.Diagnose(text)
	}
	for _, l := range f.Languages {
		if l.Diagnose != nil && (f.Language == nil || l.Name != f.Language.Name) {
			hints = append(hints, l.Diagnose(text)...)
		}
	}
	return hints
}

func systemHints(text string) []sandbox.Hint {
	var hints []sandbox.Hint
	if forkSymptom().MatchString(text) {
		hints = append(hints, sandbox.Hint{Code: sandbox.HintLimit, Limit: sandbox.LimitPids})
	}
	for _, s := range systemSymptoms {
		if slices.ContainsFunc(s.text, func(word string) bool { return strings.Contains(text, word) }) {
			hints = append(hints, s.hint)
		}
	}
	if found := pathSymptom().FindAllStringSubmatch(text, -1); found != nil {
		last := found[len(found)-1]
		h := sandbox.Hint{Code: sandbox.HintMissingFile, Name: last[1]}
		if last[2] != "No such file or directory" {
			h.Code = sandbox.HintReadOnly
		}
		return append(hints, h)
	}
	if strings.Contains(text, "Read-only file system") {
		hints = append(hints, sandbox.Hint{Code: sandbox.HintReadOnly})
	}
	if strings.Contains(text, "No such file or directory") {
		hints = append(hints, sandbox.Hint{Code: sandbox.HintMissingFile})
	}
	return hints
}

// complete adds what the engine knows of a symptom. It returns false if the symptom cannot be true.
func (f *Facts) complete(h sandbox.Hint) (sandbox.Hint, bool) {
	h.Name = PlainName(h.Name)
	switch h.Code {
	case sandbox.HintMemory:
		return f.limitHint(h.Code, sandbox.LimitMemory), f.enforces(sandbox.LimitMemory)
	case sandbox.HintNotebook:
		if l := f.Language; l != nil && f.canInstall(l) {
			h.CanInstall, h.ByName = true, f.Request.Packages.Auto
		}
	case sandbox.HintLimit:
		if !f.enforces(h.Limit) {
			return h, false
		}
		if h.Limit == sandbox.LimitDisk {
			return f.fullHint(), true
		}
		return f.limitHint(h.Code, h.Limit), true
	case sandbox.HintNoNetwork:
		h.Living = f.Living
		if !f.noNetwork() {
			h.Code = sandbox.HintUnreachable
		}
	case sandbox.HintNoInstall:
		return f.completeInstaller(h), f.noNetwork()
	case sandbox.HintNoModule:
		return f.completeModule(h), true
	case sandbox.HintTerminal:
		return h, !f.Result.Requested.Terminals
	case sandbox.HintNoInput:
		return h, len(f.Request.Stdin) == 0
	case sandbox.HintNoCommand, sandbox.HintNotProgram:
		return f.completeCommand(h)
	case sandbox.HintMissingFile, sandbox.HintReadOnly:
		return f.completePath(h)
	}
	return h, true
}

// enforces says whether anything enforces a limit here.
func (f *Facts) enforces(name sandbox.LimitName) bool {
	return f.Result.Effective.Limits.Get(name) != sandbox.Unlimited
}

func (f *Facts) completeCommand(h sandbox.Hint) (sandbox.Hint, bool) {
	command := path.Base(h.Name)
	switch {
	case h.Name == "":
	case f.Result.Requested.Commands != nil && !slices.Contains(f.Result.Requested.Commands, command):
		h.Code, h.Name, h.Names = sandbox.HintNotAllowed, command, f.Result.Requested.Commands
	case h.Code == sandbox.HintNoCommand && f.noNetwork() && f.installs(command):
		h.Code, h.Name = sandbox.HintNoInstall, command
		h = f.completeInstaller(h)
	case h.Code == sandbox.HintNoCommand:
		h.Others, h.Package = f.interpretersOf(command), f.packageOfCommand(command)
	}
	return h, true
}

// interpretersOf names the programs of the language that a command is named after, as python3 for python.
func (f *Facts) interpretersOf(command string) []string {
	for _, l := range f.Languages {
		if command == l.Name || slices.Contains(l.Aliases, command) {
			return slices.DeleteFunc(slices.Clone(l.Programs), func(program string) bool { return program == command })
		}
	}
	return nil
}

// installs says whether a command exists to fetch programs or packages.
func (f *Facts) installs(command string) bool {
	return slices.ContainsFunc(f.Languages, func(l sandbox.Language) bool { return slices.Contains(l.Installers, command) })
}

// programFolders hold programs in every root file system.
var programFolders = []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"}

func (f *Facts) completePath(h sandbox.Hint) (sandbox.Hint, bool) {
	switch name := h.Name; {
	case !path.IsAbs(name):
		if strings.HasPrefix(name, ".") || strings.Contains(name, "/.") { // nobody is asked to send such a file by a program's word
			h.Name = ""
		}
	case f.Result.Requested.Commands != nil && slices.Contains(programFolders, path.Dir(name)) && !slices.Contains(f.Result.Requested.Commands, path.Base(name)):
		return sandbox.Hint{Code: sandbox.HintNotAllowed, Name: path.Base(name), Names: f.Result.Requested.Commands}, true
	case f.isShown(name):
		return h, h.Code == sandbox.HintMissingFile // the place is writable, so the cause is another
	case h.Code == sandbox.HintMissingFile:
		h.Code = sandbox.HintOutside
	}
	return h, true
}

// isShown reports whether a path is in a place for files of the caller or the program.
func (f *Facts) isShown(name string) bool {
	name = path.Clean(name)
	for _, m := range f.Result.Requested.Mounts {
		if below(name, m.Target) {
			return true
		}
	}
	return slices.ContainsFunc(WritablePlaces, func(place string) bool { return below(name, place) })
}

var WritablePlaces = []string{sandbox.Workspace, sandbox.Home, "/tmp", "/dev/shm"}

func below(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// atProcessLimit reports whether forks or threads were refused, by the host's count or by the number of processes at the deadline.
func (f *Facts) atProcessLimit() bool {
	return f.Result.Usage.PidsRefused > 0 || f.Tasks >= f.Result.Requested.Limits.Pids
}

// complainsOfProcesses reports whether the program's output says so.
func (f *Facts) complainsOfProcesses() bool {
	text := end(&f.Result.Stderr)
	isPids := func(h sandbox.Hint) bool { return h.Code == sandbox.HintLimit && h.Limit == sandbox.LimitPids }
	return forkSymptom().MatchString(text) || slices.ContainsFunc(f.diagnose(text), isPids)
}

// fullHint returns which limit of the writable places was reached. Some backends limit no inodes, some divide the space among the places,
// and none limits directories of the host.
func (f *Facts) fullHint() sandbox.Hint {
	p := &f.Result.Effective
	h := f.limitHint(sandbox.HintLimit, sandbox.LimitDisk)
	h.By = p.Enforcers[sandbox.LimitDisk]
	inodes := f.limitHint(sandbox.HintLimit, sandbox.LimitInodes)
	if p.Limits.Inodes <= 0 || p.Enforcers[sandbox.LimitInodes] == "" {
		return h
	}
	files, bytes := f.Used()
	if float64(files)/float64(inodes.Value) > float64(bytes)/float64(h.Value) {
		return inodes
	}
	return h
}

// end returns the end of a stream, which has the reason of a failure.
func end(c *sandbox.Captured) string {
	const looked = 16 << 10
	tail := c.Tail
	if c.Dropped == 0 {
		tail = c.Head
	}
	return string(tail[max(0, len(tail)-looked):])
}
