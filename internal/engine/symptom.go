package engine

import (
	"context"
	"path"
	"regexp"
	"slices"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/plan"
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
func (x *execution) symptom(o *outcome, r *sandbox.Result) (sandbox.Hint, bool) {
	text := end(&r.Stderr)
	vague := sandbox.Hint{}
	for _, h := range append(x.diagnose(text), systemHints(text)...) {
		h, ok := x.complete(h)
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
	if vague.Code == "" && x.atProcessLimit(o) {
		return x.limitHint(sandbox.HintLimit, sandbox.LimitPids), true
	}
	if vague.Code == "" && r.ExitCode == exitNotFound {
		vague.Code = sandbox.HintNoCommand
	}
	return vague, vague.Code != ""
}

// diagnose asks the languages, that of the execution first. The bytes are hostile and the code large, so it contains a panic.
func (x *execution) diagnose(text string) (hints []sandbox.Hint) {
	defer func() {
		if p := recover(); p != nil {
			_ = x.live.engine.panicked("diagnose a failure", p)
		}
	}()
	if x.Language != nil && x.Language.Diagnose != nil {
		hints = x.Language.Diagnose(text)
	}
	for _, l := range x.live.engine.config.Languages {
		if l.Diagnose != nil && (x.Language == nil || l.Name != x.Language.Name) {
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
func (x *execution) complete(h sandbox.Hint) (sandbox.Hint, bool) {
	h.Name = plainName(h.Name)
	switch h.Code {
	case sandbox.HintMemory:
		return x.limitHint(h.Code, sandbox.LimitMemory), x.enforces(sandbox.LimitMemory)
	case sandbox.HintNotebook:
		if l := x.Language; l != nil && x.canInstall(l) {
			h.CanInstall, h.ByName = true, x.Request.Packages.Auto
		}
	case sandbox.HintLimit:
		if !x.enforces(h.Limit) {
			return h, false
		}
		if h.Limit == sandbox.LimitDisk {
			return x.fullHint(), true
		}
		return x.limitHint(h.Code, h.Limit), true
	case sandbox.HintNoNetwork:
		h.Living = x.stays != nil
		if x.Spec.Network.Mode != sandbox.NetworkNone {
			h.Code = sandbox.HintUnreachable
		}
	case sandbox.HintNoInstall:
		return x.completeInstaller(h), x.Spec.Network.Mode == sandbox.NetworkNone
	case sandbox.HintNoModule:
		return x.completeModule(h), true
	case sandbox.HintTerminal:
		return h, !x.Spec.Terminals
	case sandbox.HintNoInput:
		return h, len(x.Request.Stdin) == 0
	case sandbox.HintNoCommand, sandbox.HintNotProgram:
		return x.completeCommand(h)
	case sandbox.HintMissingFile, sandbox.HintReadOnly:
		return x.completePath(h)
	}
	return h, true
}

// enforces says whether anything enforces a limit here.
func (x *execution) enforces(name sandbox.LimitName) bool {
	return x.live.box == nil || x.live.box.Effective().Limits.Get(name) != sandbox.Unlimited
}

func (x *execution) completeCommand(h sandbox.Hint) (sandbox.Hint, bool) {
	command := path.Base(h.Name)
	switch {
	case h.Name == "":
	case x.Spec.Commands != nil && !slices.Contains(x.Spec.Commands, command):
		h.Code, h.Name, h.Names = sandbox.HintNotAllowed, command, x.Spec.Commands
	case h.Code == sandbox.HintNoCommand && x.Spec.Network.Mode == sandbox.NetworkNone && x.installs(command):
		h.Code, h.Name = sandbox.HintNoInstall, command
		h = x.completeInstaller(h)
	case h.Code == sandbox.HintNoCommand:
		h.Others, h.Package = x.interpretersOf(command), x.packageOfCommand(command)
	}
	return h, true
}

// interpretersOf names the programs of the language that a command is named after, as python3 for python.
func (x *execution) interpretersOf(command string) []string {
	for _, l := range x.live.engine.config.Languages {
		if command == l.Name || slices.Contains(l.Aliases, command) {
			return slices.DeleteFunc(slices.Clone(l.Programs), func(program string) bool { return program == command })
		}
	}
	return nil
}

// installs says whether a command exists to fetch programs or packages.
func (x *execution) installs(command string) bool {
	return slices.ContainsFunc(x.live.engine.config.Languages, func(l sandbox.Language) bool { return slices.Contains(l.Installers, command) })
}

// programFolders hold programs in every root file system.
var programFolders = []string{"/bin", "/usr/bin", "/usr/local/bin", "/sbin", "/usr/sbin"}

func (x *execution) completePath(h sandbox.Hint) (sandbox.Hint, bool) {
	switch name := h.Name; {
	case !path.IsAbs(name):
		if strings.HasPrefix(name, ".") || strings.Contains(name, "/.") { // nobody is asked to send such a file by a program's word
			h.Name = ""
		}
	case x.Spec.Commands != nil && slices.Contains(programFolders, path.Dir(name)) && !slices.Contains(x.Spec.Commands, path.Base(name)):
		return sandbox.Hint{Code: sandbox.HintNotAllowed, Name: path.Base(name), Names: x.Spec.Commands}, true
	case x.isShown(name):
		return h, h.Code == sandbox.HintMissingFile // the place is writable, so the cause is another
	case h.Code == sandbox.HintMissingFile:
		h.Code = sandbox.HintOutside
	}
	return h, true
}

// isShown reports whether a path is in a place for files of the caller or the program.
func (x *execution) isShown(name string) bool {
	name = path.Clean(name)
	for _, m := range x.Spec.Mounts {
		if below(name, m.Target) {
			return true
		}
	}
	return slices.ContainsFunc(writablePlaces, func(place string) bool { return below(name, place) })
}

var writablePlaces = []string{sandbox.Workspace, sandbox.Home, "/tmp", "/dev/shm"}

func below(name, folder string) bool { return name == folder || strings.HasPrefix(name, folder+"/") }

// atProcessLimit reports whether forks or threads were refused, by the host's count or by the number of processes at the deadline.
func (x *execution) atProcessLimit(o *outcome) bool {
	return o.usage.PidsRefused > 0 || int64(o.exited.Tasks) >= x.Spec.Limits.Pids
}

// complainsOfProcesses reports whether the program's output says so.
func (x *execution) complainsOfProcesses(r *sandbox.Result) bool {
	text := end(&r.Stderr)
	isPids := func(h sandbox.Hint) bool { return h.Code == sandbox.HintLimit && h.Limit == sandbox.LimitPids }
	return forkSymptom().MatchString(text) || slices.ContainsFunc(x.diagnose(text), isPids)
}

// blockSize is the least size of a file in tmpfs, the file system of the writable places.
const blockSize = 4 << 10

// fullHint returns which limit of the writable places was reached. Some backends limit no inodes, some divide the space among the places,
// and none limits directories of the host.
func (x *execution) fullHint() sandbox.Hint {
	p := x.live.box.Effective()
	h := x.limitHint(sandbox.HintLimit, sandbox.LimitDisk)
	h.By = p.Enforcers[sandbox.LimitDisk]
	inodes := x.limitHint(sandbox.HintLimit, sandbox.LimitInodes)
	if p.Limits.Inodes <= 0 || p.Enforcers[sandbox.LimitInodes] == "" {
		return h
	}
	files, bytes := x.used()
	if float64(files)/float64(inodes.Value) > float64(bytes)/float64(h.Value) {
		return inodes
	}
	return h
}

// The most that used looks at, in all places: what it finds tells the two limits apart, and costs a failed run some 50 ms at the most.
const (
	maxUsed      = 20_000
	maxUsedPaths = 2 << 20 // bytes
)

// used counts what lies in the writable places at the end, as far as it looks.
func (x *execution) used() (files, bytes int64) {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	paths := 0
	for _, place := range writablePlaces {
		_, _ = x.client.ListDir(ctx, guest.ListDir{Path: place, Depth: plan.MaxDepth, Limit: maxUsed}, func(f guest.FileInfo) error {
			if paths += len(f.Path); files >= maxUsed || paths > maxUsedPaths {
				return errEnough
			}
			files++
			if f.Type == guest.FileRegular {
				bytes += int64(min(f.Size, 1<<40)+blockSize-1) / blockSize * blockSize
			}
			return nil
		})
	}
	return files, bytes
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
