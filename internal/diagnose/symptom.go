package diagnose

import (
	"cmp"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// systemSymptoms are messages of the C library, which occur in any language. The text comes from the program, so it
// serves only for advice. Language.Diagnose finds those of a language.
var systemSymptoms = []struct {
	text    []string
	symptom sandbox.Symptom
}{
	{[]string{"No space left on device", "Disk quota exceeded"},
		sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitDisk}},
	{[]string{"Too many open files"}, sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitOpenFiles}},
	{[]string{"Cannot allocate memory"}, sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitMemory}},
	{[]string{"No usable sandbox!", "The SUID sandbox helper binary", "Failed to move to new namespace",
		"zygote_host_impl_linux"}, sandbox.Symptom{Kind: sandbox.SymptomNested}},
	{[]string{"out of pty devices", "/dev/ptmx", "openpty", "forkpty"},
		sandbox.Symptom{Kind: sandbox.SymptomTerminal}},
}

// forkSymptom is a fork or a thread that was refused. EAGAIN alone also means a socket that has nothing to read.
var forkSymptom = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(?i)(fork|clone|spawn|subprocess|thread)[^\n]{0,200}(\n[^\n]{0,200}){0,2}` +
		`Resource temporarily unavailable`)
})

// pathSymptom finds the path in a message of the C library.
var pathSymptom = sync.OnceValue(func() *regexp.Regexp {
	return regexp.MustCompile(`(/[\w./@+-]+)['"]?: (No such file or directory|Read-only file system|Permission denied)`)
})

// symptomHint returns the likely cause of a failure, by the program's output, or nil.
func (f *Facts) symptomHint() sandbox.Hint {
	text := end(&f.Result.Stderr)
	var vague sandbox.Hint
	for _, s := range append(f.symptoms(text), systemSymptomsOf(text)...) {
		s.Name = PlainName(s.Name)
		switch h := f.hintOf(s).(type) {
		case nil:
		case sandbox.HintMissingFile: // any other symptom is closer to the cause
			vague = cmp.Or[sandbox.Hint](vague, h)
		default:
			return h
		}
	}
	switch {
	case vague != nil:
	case f.failedSilently():
		return f.reachHint("")
	case f.atProcessLimit():
		return sandbox.HintLimit{Bound: f.bound(sandbox.LimitPids)}
	case f.Result.ExitCode == ExitNotFound:
		return sandbox.HintNoCommand{}
	}
	return vague
}

// symptoms returns the symptoms that the languages find, the language of the run first. The text is hostile.
func (f *Facts) symptoms(text string) (all []sandbox.Symptom) {
	if f.Language != nil && f.Language.Diagnose != nil {
		all = f.Language.Diagnose(text)
	}
	for _, l := range f.Languages {
		if l.Diagnose != nil && (f.Language == nil || l.Name != f.Language.Name) {
			all = append(all, l.Diagnose(text)...)
		}
	}
	return all
}

func systemSymptomsOf(text string) (all []sandbox.Symptom) {
	if forkSymptom().MatchString(text) {
		all = append(all, sandbox.Symptom{Kind: sandbox.SymptomLimit, Limit: sandbox.LimitPids})
	}
	for _, s := range systemSymptoms {
		if slices.ContainsFunc(s.text, func(word string) bool { return strings.Contains(text, word) }) {
			all = append(all, s.symptom)
		}
	}
	if host, complains := complainsOfNetwork(text); complains {
		all = append(all, sandbox.Symptom{Kind: sandbox.SymptomNoNetwork, Name: host})
	}
	if found := pathSymptom().FindAllStringSubmatch(text, -1); found != nil {
		last := found[len(found)-1]
		if last[2] == "No such file or directory" {
			return append(all, sandbox.Symptom{Kind: sandbox.SymptomMissingFile, Name: last[1]})
		}
		return append(all, sandbox.Symptom{Kind: sandbox.SymptomReadOnly, Name: last[1]})
	}
	if strings.Contains(text, "Read-only file system") {
		all = append(all, sandbox.Symptom{Kind: sandbox.SymptomReadOnly})
	}
	if strings.Contains(text, "No such file or directory") {
		all = append(all, sandbox.Symptom{Kind: sandbox.SymptomMissingFile})
	}
	return all
}

// hintOf turns a symptom into a hint. It returns nil if the symptom cannot be true.
func (f *Facts) hintOf(s sandbox.Symptom) sandbox.Hint {
	switch s.Kind {
	case sandbox.SymptomLimit:
		return f.limitHint(s.Limit)
	case sandbox.SymptomNotCompiled:
		if f.Language != nil && f.Language.Name == s.Name { // else a program of the run called the launcher
			return sandbox.HintNotCompiled{ExitCode: f.Result.ExitCode}
		}
		return nil
	case sandbox.SymptomNotebook:
		h := sandbox.HintNotebook{Named: sandbox.Named{Name: s.Name}}
		if l := f.Language; l != nil && f.canInstall(l) {
			h.Offer = sandbox.Offer{Packages: true, ByName: f.Request.Packages.Auto}
		}
		return h
	case sandbox.SymptomUserFolder:
		return sandbox.HintUserFolder
	case sandbox.SymptomNested:
		return sandbox.HintNested
	case sandbox.SymptomESModule:
		return sandbox.HintESModule
	case sandbox.SymptomNoNetwork:
		return f.reachHint(s.Name)
	case sandbox.SymptomNoInstall:
		if f.noNetwork() {
			return f.noInstall(s.Name)
		}
	case sandbox.SymptomNoModule:
		return f.noModule(s.Name)
	case sandbox.SymptomNoDependency:
		if h, ok := f.noModule(s.Name).(sandbox.HintNoModule); ok {
			h.ByName = h.Packages // auto does not find it
			return h
		}
	case sandbox.SymptomNotBuilt:
		return f.notBuilt(s.Name)
	case sandbox.SymptomNoData:
		return sandbox.HintData{Name: s.Name, Hosts: s.Hosts, Living: f.Living}
	case sandbox.SymptomTerminal:
		if !f.Result.Requested.Terminals {
			return sandbox.HintTerminal
		}
	case sandbox.SymptomNoInput:
		if len(f.Request.Stdin) == 0 {
			return sandbox.HintNoInput
		}
	case sandbox.SymptomNoCommand, sandbox.SymptomNotProgram:
		return f.commandHint(s)
	case sandbox.SymptomLineEnds:
		if s.Name == "" || f.hasLineEnds(s.Name) {
			return sandbox.HintLineEnds{Named: sandbox.Named{Name: s.Name}}
		}
	case sandbox.SymptomMissingFile, sandbox.SymptomReadOnly:
		return f.pathHint(s)
	}
	return nil
}

// limitHint returns the hint that a limit was reached, or nil if nothing enforces it here.
func (f *Facts) limitHint(name sandbox.LimitName) sandbox.Hint {
	switch {
	case f.Result.Effective.Limits.Get(name) == sandbox.Unlimited:
		return nil
	case name == sandbox.LimitMemory:
		return sandbox.HintMemory{Bound: f.bound(name)}
	case name == sandbox.LimitDisk:
		return f.fullHint()
	}
	return sandbox.HintLimit{Bound: f.bound(name)}
}

func (f *Facts) commandHint(s sandbox.Symptom) sandbox.Hint {
	command, allowed := path.Base(s.Name), f.Result.Requested.Commands
	switch {
	case s.Name != "" && allowed != nil && !slices.Contains(allowed, command):
		return sandbox.HintNotAllowed{Name: command, Allowed: allowed}
	case s.Kind == sandbox.SymptomNotProgram:
		return sandbox.HintNotProgram{Named: sandbox.Named{Name: s.Name}}
	case f.noNetwork() && f.installs(command):
		return f.noInstall(command)
	case strings.Contains(s.Name, "/") && f.hasLineEnds(s.Name): // the kernel finds no interpreter
		return sandbox.HintLineEnds{Named: sandbox.Named{Name: s.Name}}
	}
	return f.noCommand(sandbox.HintNoCommand{Name: s.Name})
}

func (f *Facts) hasLineEnds(script string) bool { return f.LineEnds != nil && f.LineEnds(script) }

// noCommand adds an interpreter or a package that has the missing command.
func (f *Facts) noCommand(h sandbox.HintNoCommand) sandbox.Hint {
	if command := path.Base(h.Name); h.Name != "" {
		h.Instead, h.Package = f.interpretersOf(command), f.packageOfCommand(command)
	}
	return h
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

// installs reports whether a command installs programs or packages.
func (f *Facts) installs(command string) bool {
	return slices.ContainsFunc(f.Languages, func(l sandbox.Language) bool {
		return slices.Contains(l.Installers, command)
	})
}

// programFolders hold programs in every root file system.
var programFolders = []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"}

func (f *Facts) pathHint(s sandbox.Symptom) sandbox.Hint {
	name, allowed := sandbox.Named{Name: s.Name}, f.Result.Requested.Commands
	missing := s.Kind == sandbox.SymptomMissingFile
	base := path.Base(s.Name)
	switch {
	case !path.IsAbs(s.Name):
		// a program must not make the caller send a hidden file
		if strings.HasPrefix(s.Name, ".") || strings.Contains(s.Name, "/.") {
			name.Name = ""
		}
	case allowed != nil && slices.Contains(programFolders, path.Dir(s.Name)) && !slices.Contains(allowed, base):
		return sandbox.HintNotAllowed{Name: base, Allowed: allowed}
	case f.isShown(s.Name) && !missing:
		return nil // the place is writable, so the cause is another
	case missing && !f.isShown(s.Name):
		return sandbox.HintOutside{Named: name}
	}
	if missing {
		return sandbox.HintMissingFile{Named: name}
	}
	return sandbox.HintReadOnly{Named: name}
}

// isShown reports whether a path is in a place for files of the caller or the program.
func (f *Facts) isShown(name string) bool {
	name = path.Clean(name)
	for _, m := range f.Result.Requested.Mounts {
		if below(name, m.Target) {
			return true
		}
	}
	for _, v := range f.Result.Requested.Volumes {
		if below(name, v.Path) {
			return true
		}
	}
	return slices.ContainsFunc(WritablePlaces, func(place string) bool { return below(name, place) })
}

// WritablePlaces are the folders that every sandbox can write to.
var WritablePlaces = []string{sandbox.Workspace, sandbox.Home, "/tmp", "/dev/shm"}

func below(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// atProcessLimit reports whether forks or threads were refused, by the host's count or by the number of processes at
// the deadline.
func (f *Facts) atProcessLimit() bool {
	return f.Result.Usage.PidsRefused > 0 || f.Tasks >= f.Result.Requested.Limits.Pids
}

// complainsOfProcesses reports whether the program's output has an error of a refused fork or thread.
func (f *Facts) complainsOfProcesses() bool {
	text := end(&f.Result.Stderr)
	isPids := func(s sandbox.Symptom) bool { return s.Kind == sandbox.SymptomLimit && s.Limit == sandbox.LimitPids }
	return forkSymptom().MatchString(text) || slices.ContainsFunc(f.symptoms(text), isPids)
}

// fullHint returns which limit of the writable places was reached. Some backends limit no inodes, some divide the
// space among the places, and none limits directories of the host. If the places are almost empty, a volume is full,
// which has no limit of the sandbox.
func (f *Facts) fullHint() sandbox.Hint {
	const leastShare = 16 // a place has at least this part of the limits
	p := &f.Result.Effective
	disk, inodes := f.bound(sandbox.LimitDisk), f.bound(sandbox.LimitInodes)
	if p.Limits.Inodes > 0 && p.Enforcers[sandbox.LimitInodes] != "" {
		files, bytes := f.Used()
		if len(f.Result.Requested.Volumes) > 0 && float64(files) < float64(inodes.Value)/leastShare &&
			float64(bytes) < float64(disk.Value)/leastShare {
			return nil
		}
		if float64(files)/float64(inodes.Value) > float64(bytes)/float64(disk.Value) {
			return sandbox.HintLimit{Bound: inodes}
		}
	}
	return sandbox.HintLimit{Bound: disk, Enforcer: p.Enforcers[sandbox.LimitDisk]}
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
