package answer

import (
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Hint words hints as sentences that a person or a model can act on. Plain names are all that they quote from the program.
func (f Face) Hint(hints []sandbox.Hint) string {
	var parts []string
	for i := range hints {
		f.kept = f.kept || hints[i].Code == sandbox.HintStateKept
	}
	for i := range hints {
		if s := f.sentences(&hints[i]); s != "" {
			parts = append(parts, s)
		}
	}
	return strings.Join(parts, " ")
}

func (f Face) sentences(h *sandbox.Hint) string {
	for _, of := range []func(*sandbox.Hint) string{f.end, f.reached, f.tried, f.missing} {
		if s := of(h); s != "" {
			return s
		}
	}
	return ""
}

// end words how an execution ended.
func (f Face) end(h *sandbox.Hint) string {
	switch h.Code {
	case sandbox.HintExitCode:
		if h.Silent {
			return fmt.Sprintf("The program ended with exit code %d and wrote nothing to stderr.", h.ExitCode)
		}
		return fmt.Sprintf("The program ended with exit code %d; stderr says why.", h.ExitCode)
	case sandbox.HintNotCompiled:
		if h.ExitCode < 0 {
			return "The compiler was ended before it was done, so the program did not run."
		}
		return "The code does not compile, so nothing of it ran; stderr says why."
	case sandbox.HintSignal:
		return signal(h.Signal)
	case sandbox.HintInterrupted:
		return "The program ended itself with SIGINT, as an uncaught KeyboardInterrupt does; nobody interrupted it from outside."
	case sandbox.HintTimeout:
		return fmt.Sprintf("The program was still running at its time limit of %s and was %s. Do less work%s.", value(h), f.killed(), f.orRaise(h))
	case sandbox.HintStuck:
		return fmt.Sprintf("The program was still running at its time limit of %s and was %s.", value(h), f.killed())
	case sandbox.HintWaited:
		return fmt.Sprintf("The program was still running at its time limit of %s and was %s; it had used almost no CPU time.%s", value(h), f.killed(), f.waited(h))
	case sandbox.HintCanceled:
		if f.kept {
			return "The run was canceled before it ended."
		}
		return "The run was canceled before it ended, and all its processes were killed."
	case sandbox.HintStateKept:
		return "The code was interrupted; variables and files of the context are still there."
	case sandbox.HintStateLost:
		return "The interpreter has ended: its variables are gone, files stay. The next run starts a new one."
	case sandbox.HintNotStarted:
		return "The run was canceled before the program was started; nothing ran."
	case sandbox.HintRejected:
		name := "the program"
		if h.Name != "" {
			name = strconv.Quote(h.Name)
		}
		return fmt.Sprintf("Nothing ran: %s is not among the commands that the policy allows: %s.%s", name, some(h.Names), f.allowed(h.Name))
	case sandbox.HintChecks:
		return fmt.Sprintf("Nothing ran: the checks refuse the code by the rule %s; stderr names the lines. %s", h.Name, strings.Join(h.Names, " "))
	case sandbox.HintLost:
		return lost(h)
	case sandbox.HintNoCommand:
		if h.Name == "" {
			return "A command was probably not found in the sandbox; stderr names it."
		}
		if h.By != "" {
			return fmt.Sprintf("Command not found in the sandbox: %s. PATH was set to %q; leave it out, or keep /usr/bin in it.", h.Name, h.By)
		}
		if len(h.Others) > 0 {
			return fmt.Sprintf("Command not found in the sandbox: %s. Use %s.", h.Name, some(h.Others))
		}
		if h.Package != "" {
			return fmt.Sprintf("Command not found in the sandbox: %s. It is in the Debian package %s, which its root file system lacks.", h.Name, h.Package)
		}
		return fmt.Sprintf("Command not found in the sandbox: %s. Only programs of its root file system can be used.", h.Name)
	case sandbox.HintNoFile:
		return fmt.Sprintf("There is no file %s in the sandbox to execute. Send it %s.", h.Name, f.file)
	case sandbox.HintNoLoader:
		return fmt.Sprintf("The interpreter or loader of %s is not in the sandbox. Look at its first line, after #!.", h.Name)
	case sandbox.HintNotProgram:
		return fmt.Sprintf("%s cannot be executed. Make it executable, a script with a first line such as #!/bin/sh; or name its interpreter first: sh %s.",
			h.Name, h.Name)
	}
	return ""
}

// killed is what happened to a program at its deadline.
func (f Face) killed() string {
	if f.kept {
		return "interrupted"
	}
	return "killed"
}

// waited words what a program may have waited for in vain.
func (f Face) waited(h *sandbox.Hint) string {
	var parts []string
	if h.NoInput {
		parts = append(parts, " If it waited for input: there was none; give it "+f.input+".")
	}
	if h.NoNetwork {
		parts = append(parts, " If it waited for the network: a sandbox has none.")
	}
	return strings.Join(parts, "")
}

func (f Face) allowed(command string) string {
	if way := f.allow(command); command != "" && way != "" {
		return " To allow it: " + way + "."
	}
	return ""
}

// reached words which limit an execution reached.
func (f Face) reached(h *sandbox.Hint) string {
	switch h.Code {
	case sandbox.HintMemory:
		return fmt.Sprintf("It ran out of memory; the limit is %s. Use less at a time%s.", value(h), f.orRaise(h))
	case sandbox.HintMemoryKilled:
		return fmt.Sprintf("The program reached its memory limit of %s and was killed by the kernel. Use less at a time%s.", value(h), f.orRaise(h))
	case sandbox.HintMemoryEnded:
		return fmt.Sprintf("The sandbox reached its memory limit of %s and the kernel ended all of it, with its files. Use less at a time%s.", value(h), f.orRaise(h))
	case sandbox.HintChildren:
		return fmt.Sprintf("The kernel killed %s of the program at the memory limit of %s. What they did may be missing.%s",
			count(h.Count, "process", "processes"), value(h), f.toRaise(h))
	case sandbox.HintOutputEnded:
		return fmt.Sprintf("The program was killed because it wrote far past its output limit of %s; only the beginning and the latest output are kept. "+
			"Print less, or write to a file.", value(h))
	case sandbox.HintOutput:
		return fmt.Sprintf("%s went over its limit of %s: %s in the middle were dropped. Write less, or to a file%s.",
			h.Name, value(h), sandbox.FormatBytes(h.Count), f.orRaise(h))
	case sandbox.HintLimit:
		return f.limitReached(h)
	}
	return ""
}

func (f Face) limitReached(h *sandbox.Hint) string {
	what := string(h.Limit)
	switch h.Limit {
	case sandbox.LimitPids:
		what = "processes and threads"
	case sandbox.LimitOpenFiles:
		what = "open files"
	case sandbox.LimitInodes:
		what = "files and folders"
	case sandbox.LimitDisk:
		by := ""
		if h.By != "" {
			by = " (" + h.By + ")"
		}
		return fmt.Sprintf("A writable place is full: all files together may take %s%s.%s", value(h), by, f.toRaise(h))
	}
	return fmt.Sprintf("It reached its limit of %s %s.%s", value(h), what, f.toRaise(h))
}

// toRaise is a sentence that says how to raise the limit of a hint, or "" if it cannot be raised.
func (f Face) toRaise(h *sandbox.Hint) string {
	if h.Raise == 0 {
		return ""
	}
	way := f.raise(h.Limit, f.number(h.Limit, h.Raise))
	return " " + strings.ToUpper(way[:1]) + way[1:] + "."
}

func (f Face) orRaise(h *sandbox.Hint) string {
	if h.Raise == 0 {
		return ""
	}
	return ", or " + f.raise(h.Limit, f.number(h.Limit, h.Raise))
}

// tried words what a program tried that its sandbox does not offer.
func (f Face) tried(h *sandbox.Hint) string {
	switch h.Code {
	case sandbox.HintNotAllowed:
		return fmt.Sprintf("The program tried to execute %s, which is not among the allowed commands: %s.%s", h.Name, some(h.Names), f.allowed(h.Name))
	case sandbox.HintNoInstall:
		if way := f.install(h); way != "" {
			return fmt.Sprintf("%s cannot install anything: a sandbox has no network. Packages for %s are installed before its code runs: %s.", h.Name, h.By, way)
		}
		return fmt.Sprintf("%s cannot install anything: a sandbox has no network, and its system is read-only. "+
			"Use what is there or the standard library, or send what the program needs %s.", h.Name, f.file)
	case sandbox.HintNoNetwork:
		return fmt.Sprintf("The sandbox has no network. Send what the program needs %s; to reach a host, %s.", f.file, f.reach(h, "HOST"))
	case sandbox.HintRefused:
		return f.networkRefused(h)
	case sandbox.HintUnreachable:
		return "Not every address may be reached from the sandbox."
	case sandbox.HintNoModule:
		return f.noModule(h)
	case sandbox.HintNoStandard:
		return fmt.Sprintf("The module %s is of the standard library. It is in the Debian package %s, which the root file system lacks; no other package has it.", h.Name, h.Package)
	case sandbox.HintNoCommands:
		names := make([]string, len(h.Names))
		for i, name := range h.Names {
			if names[i] = name; i < len(h.Others) && h.Others[i] != "" {
				names[i] += " (Debian package " + h.Others[i] + ")"
			}
		}
		return fmt.Sprintf("The sandbox lacks commands that the script names: %s. Only programs of its root file system can be used.", strings.Join(names, ", "))
	case sandbox.HintNoPackage:
		return fmt.Sprintf("The index has no package for the import of %s. If its package has another name, or has to be built, ask for it by name; code of your own can be sent %s.",
			strings.Join(h.Names, ", "), f.file)
	case sandbox.HintLeftOut:
		return fmt.Sprintf("Packages that the code seems to do without were not installed: %s.%s", some(h.Names), f.to("have one", h))
	case sandbox.HintNoInput:
		return fmt.Sprintf("It read from stdin, which is empty. Give it input %s.", f.input)
	case sandbox.HintMissingFile:
		name := "A file was not found"
		if h.Name != "" {
			name = "The file " + h.Name + " was not found"
		}
		made := ""
		if strings.Contains(h.Name, "/") {
			made = " If the program is to write it, make its folder first."
		}
		return fmt.Sprintf("%s: only files that were sent are in %s. Send it %s.%s", name, sandbox.Workspace, f.file, made)
	case sandbox.HintReadOnly:
		return fmt.Sprintf("Only %s, %s and /tmp can be written to%s.", sandbox.Workspace, sandbox.Home, instead(h.Name))
	case sandbox.HintOutside:
		return fmt.Sprintf("There is no %s in the sandbox. Files are read from and written to %s%s.", h.Name, sandbox.Workspace, instead(h.Name))
	case sandbox.HintTerminal:
		if f.terminals == "" {
			return "Code may not open terminals of its own here. Run the program without one."
		}
		return "Code may not open terminals of its own. Run the program without one, or allow them: " + f.terminals + "."
	case sandbox.HintFence:
		return "The code begins with a Markdown fence; send it without the lines of ```."
	case sandbox.HintNotebook:
		return "A line of the code begins with % or !, which only notebooks understand." + f.to("install packages", h)
	case sandbox.HintESModule:
		return "Code with import, export or an await outside of functions is a module, and has no require: write import instead."
	}
	return ""
}

func (f Face) noModule(h *sandbox.Hint) string {
	name, way := "A module", f.install(h)
	if h.Name != "" {
		name = "The module " + h.Name
	}
	switch {
	case way != "" && h.ByName:
		return fmt.Sprintf("%s is not there, and auto does not take it for needed. To have it installed before the run, %s. Code of your own can be sent %s.", name, way, f.file)
	case way != "":
		return fmt.Sprintf("%s is not there. To have it installed before the run, %s. Code of your own can be sent %s.", name, way, f.file)
	}
	return fmt.Sprintf("%s is not there. A package cannot be installed: use another one or the standard library. Code of your own can be sent %s.", name, f.file)
}

// install is how to ask for packages, or "".
func (f Face) install(h *sandbox.Hint) string {
	if !h.CanInstall {
		return ""
	}
	return f.packages(h)
}

// to is a sentence on how to get packages, for an end, if callers can.
func (f Face) to(end string, h *sandbox.Hint) string {
	if way := f.install(h); way != "" {
		return " To " + end + ", " + way + "."
	}
	return ""
}

// instead suggests a path in the workspace for another one.
func instead(name string) string {
	base := path.Base(name)
	if name == "" || base == "/" || base == "." {
		return ""
	}
	return ": use " + path.Join(sandbox.Workspace, base)
}

// missing words what was not returned.
func (f Face) missing(h *sandbox.Hint) string {
	switch h.Code {
	case sandbox.HintSkipped:
		return skipped(h)
	case sandbox.HintNoFiles:
		return "New files could not be read, so not all were returned."
	case sandbox.HintUnlisted:
		return "The workspace holds too many files to examine; the rest was not returned."
	case sandbox.HintPatterns:
		return "The patterns of files to return took too long to match against so many paths; the rest was not examined."
	case sandbox.HintUnmatched:
		made := ""
		if len(h.Others) > 0 {
			made = " New files: " + some(h.Others) + "."
		}
		return fmt.Sprintf("No new or changed file matches %s.%s", some(h.Names), made)
	case sandbox.HintElsewhere:
		names := ""
		if len(h.Names) > 0 {
			names = ", such as " + strings.Join(h.Names, ", ")
		}
		return fmt.Sprintf("%s outside of %s%s, and nothing from there is returned. Write to %s.",
			count(h.Count, "file lies", "files lie"), sandbox.Workspace, names, sandbox.Workspace)
	case sandbox.HintLeft:
		return fmt.Sprintf("%s still running when the program ended and %s killed. Wait for background processes before the end.",
			count(h.Count, "background process was", "background processes were"), plural(h.Count, "was", "were"))
	}
	return ""
}

var skipWords = map[sandbox.SkipCode]string{
	sandbox.SkipTooLarge: "too large", sandbox.SkipTooMany: "too many files", sandbox.SkipTotal: "too large together", sandbox.SkipSymlink: "a symbolic link",
	sandbox.SkipDevice: "a device", sandbox.SkipPipe: "a pipe", sandbox.SkipSocket: "a socket", sandbox.SkipUnreadable: "could not be read",
	sandbox.SkipChanged: "changed while it was read", sandbox.SkipUnwritten: "could not be written",
}

func skipped(h *sandbox.Hint) string {
	shown := make([]string, len(h.Files))
	for i, s := range h.Files {
		name := s.Path
		if name == "" { // a name can be any text, and readers take a hint for Fumehood's own words
			name = "a file"
		}
		if shown[i] = name; i == len(h.Files)-1 || h.Files[i+1].Code != s.Code { // a reason follows the last of its files
			shown[i] += " (" + skipWords[s.Code] + ")"
		}
	}
	if more := h.Count - int64(len(shown)); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s not returned: %s.", count(h.Count, "file was", "files were"), strings.Join(shown, ", "))
}

// signals has Linux's numbers, as this host's may differ.
var signals = map[int]string{
	11: "SIGSEGV: it touched memory that is not its own, a defect of the program or of a native library",
	7:  "SIGBUS: it touched memory that was not available, perhaps of a mapped file on a full disk",
	6:  "SIGABRT: it aborted, and stderr may say why",
	8:  "SIGFPE: an arithmetic error such as an integer division by zero",
	4:  "SIGILL: an instruction that this CPU does not have",
	31: "SIGSYS: a system call that the sandbox forbids",
	9: "SIGKILL. A process of the program may have sent it; Fumehood sends it to code with thousands of sockets or file locks, or that runs out of " +
		"memory again and again",
	15: "SIGTERM, which Fumehood does not send by itself",
	13: "SIGPIPE: it wrote to a pipe that nobody reads",
	24: "SIGXCPU: it used up its CPU time",
	25: "SIGXFSZ: a file exceeded the largest allowed size",
}

func signal(number int) string {
	if text, ok := signals[number]; ok {
		return "The program was ended by " + text + "."
	}
	return fmt.Sprintf("The program was ended by signal %d.", number)
}

func lost(h *sandbox.Hint) string {
	text := "The sandbox was lost while the program ran, so the outcome is unknown. It may be run again."
	switch {
	case h.Signal != 0:
		text += fmt.Sprintf(" Its guest was killed by signal %d.", h.Signal)
	case h.ExitCode >= 0:
		text += fmt.Sprintf(" Its guest ended with code %d.", h.ExitCode)
	}
	return text
}

func value(h *sandbox.Hint) string { return sandbox.FormatLimit(h.Limit, h.Value) }

func plural(n int64, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func count(n int64, one, many string) string { return fmt.Sprintf("%d %s", n, plural(n, one, many)) }

// some lists the first few names.
func some(names []string) string {
	const shown = 20
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
