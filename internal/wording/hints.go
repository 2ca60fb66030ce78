package wording

import (
	"cmp"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// end words a hint about the end of a run.
func (f Face) end(h sandbox.Hint, interrupted bool) string {
	killed := ended(interrupted)
	const atLimit = "The program was still running at its time limit of %s and was %s"
	switch h := h.(type) {
	case sandbox.HintExitCode:
		return fmt.Sprintf("The program ended with exit code %d and wrote nothing to stderr.", h.ExitCode)
	case sandbox.HintNotCompiled:
		if h.ExitCode < 0 {
			return "The compiler was killed, so the program did not run."
		}
		return "The code does not compile, so nothing ran; see stderr."
	case sandbox.HintSignal:
		return signal(h.Signal)
	case sandbox.HintTimeout:
		return fmt.Sprintf(atLimit+". Do less work%s.", value(h.Bound), killed, f.orRaise(h.Bound))
	case sandbox.HintStuck:
		return fmt.Sprintf(atLimit+".", value(h.Bound), killed)
	case sandbox.HintWaited:
		text := fmt.Sprintf(atLimit+"; it had used almost no CPU time.", value(h.Bound), killed)
		text += " If it is a server: " + f.serve + "."
		if h.NoNetwork {
			text += " If it waited for the network: a sandbox has none."
		}
		return text
	case sandbox.HintStateLost:
		return "The interpreter has ended: its variables are gone, files stay. The next run starts a new one."
	case sandbox.HintRejected:
		name := "the program"
		if h.Name != "" {
			name = strconv.Quote(h.Name)
		}
		return fmt.Sprintf("Nothing ran: %s is not among the commands that the policy allows: %s.%s", name,
			some(h.Allowed), f.allowed(h.Name))
	case sandbox.HintChecks:
		return fmt.Sprintf("Nothing ran: the checks refuse the code by the rule %s; stderr names the lines. %s",
			h.Rule, h.Advice)
	case sandbox.HintLost:
		return lost(h)
	case sandbox.HintNoCommand:
		return noCommand(h)
	case sandbox.HintNoFile:
		return fmt.Sprintf("There is no %s in the sandbox to execute. Send it %s.", cmp.Or(h.Name, "such file"),
			f.file)
	case sandbox.HintNoLoader:
		return fmt.Sprintf("The interpreter or loader of %s is not in the sandbox. Look at its first line, after #!.",
			cmp.Or(h.Name, "the program"))
	case sandbox.HintLineEnds:
		return fmt.Sprintf("%s has Windows line ends, which its interpreter does not accept. Replace "+
			`each \r\n in it by \n.`, cmp.Or(h.Name, "A script"))
	case sandbox.HintNotProgram:
		return fmt.Sprintf("%s cannot be executed. Make it executable for all users, a script with a first line such "+
			"as #!/bin/sh; or name its interpreter first: sh %s.", cmp.Or(h.Name, "The program"),
			cmp.Or(h.Name, "FILE"))
	case sandbox.HintLeft:
		return fmt.Sprintf("%s still running when the program ended and %s killed. Wait for background processes "+
			"before the end.", count(h.Count, "background process was", "background processes were"),
			plural(h.Count, "was", "were"))
	}
	return ""
}

// ended is the verb for how Fumehood ended a program.
func ended(interrupted bool) string {
	if interrupted {
		return "interrupted"
	}
	return "killed"
}

func noCommand(h sandbox.HintNoCommand) string {
	if h.Name == "" {
		return "A command was probably not found in the sandbox; stderr names it."
	}
	text := "Command not found in the sandbox: " + h.Name + ". "
	switch {
	case h.Path != "":
		return text + fmt.Sprintf("PATH was set to %q; leave it out, or keep /usr/bin in it.", h.Path)
	case len(h.Instead) > 0:
		return text + "Use " + some(h.Instead) + "."
	case h.Package != "":
		return text + "It is in the Debian package " + h.Package + ", which its root file system lacks."
	}
	return text + "Only programs of its root file system can be used."
}

func (f Face) allowed(command string) string {
	if way := f.set("allow_command", command); command != "" && way != "" {
		return " To allow it: " + way + "."
	}
	return ""
}

// reached words a hint about a limit that a run reached.
func (f Face) reached(h sandbox.Hint, interrupted bool) string {
	switch h := h.(type) {
	case sandbox.HintMemory:
		return fmt.Sprintf("It ran out of memory; the limit is %s. Use less at a time%s.", value(h.Bound),
			f.orRaise(h.Bound))
	case sandbox.HintMemoryKilled:
		return fmt.Sprintf("The program reached its memory limit of %s and was killed. Use less at a time%s.",
			value(h.Bound), f.orRaise(h.Bound))
	case sandbox.HintMemoryEnded:
		return fmt.Sprintf("The sandbox reached its memory limit of %s and the kernel ended all of it, with its "+
			"files. Use less at a time%s.", value(h.Bound), f.orRaise(h.Bound))
	case sandbox.HintChildren:
		return fmt.Sprintf("The memory limit of %s ended %s of the program. Their work may be incomplete.%s",
			value(h.Bound), count(int(h.Count), "process", "processes"), f.toRaise(h.Bound))
	case sandbox.HintOutputEnded:
		return fmt.Sprintf("The program was %s because it wrote far past its output limit of %s; only the "+
			"beginning and the latest output are kept. Print less, or write to a file.", ended(interrupted),
			value(h.Bound))
	case sandbox.HintOutput:
		return fmt.Sprintf("%s went over its limit of %s: %s in the middle were dropped. Write less, or to a file%s.",
			h.Stream, value(h.Bound), sandbox.FormatBytes(h.Bytes), f.orRaise(h.Bound))
	case sandbox.HintLimit:
		if h.Limit == sandbox.LimitDisk {
			by := ""
			if h.Enforcer != "" {
				by = " (" + h.Enforcer + ")"
			}
			return fmt.Sprintf("A writable place is full: all files together may take %s%s.%s", value(h.Bound), by,
				f.toRaise(h.Bound))
		}
		counted := map[sandbox.LimitName]string{sandbox.LimitPids: "processes and threads",
			sandbox.LimitOpenFiles: "open files", sandbox.LimitInodes: "files and folders"}
		return fmt.Sprintf("It reached its limit of %s %s.%s", value(h.Bound),
			cmp.Or(counted[h.Limit], string(h.Limit)), f.toRaise(h.Bound))
	}
	return ""
}

// toRaise words how to raise a limit as a sentence. It returns "" if the limit cannot be raised.
func (f Face) toRaise(b sandbox.Bound) string {
	if b.Raise == 0 {
		return ""
	}
	way := f.raise(b)
	return " " + strings.ToUpper(way[:1]) + way[1:] + "."
}

func (f Face) orRaise(b sandbox.Bound) string {
	if b.Raise == 0 {
		return ""
	}
	return ", or " + f.raise(b)
}

// tried words a hint about something that the sandbox does not offer.
func (f Face) tried(h sandbox.Hint) string {
	switch h := h.(type) {
	case sandbox.HintNotAllowed:
		return fmt.Sprintf("The program tried to execute %s, which is not among the allowed commands: %s.%s", h.Name,
			some(h.Allowed), f.allowed(h.Name))
	case sandbox.HintNoInstall:
		if way := f.install(h.Offer); way != "" && h.Language != "" {
			return fmt.Sprintf("%s cannot install anything: a sandbox has no network. Packages for %s are "+
				"installed before its code runs: %s.",
				h.Name, h.Language, way)
		}
		return fmt.Sprintf("%s cannot install anything: a sandbox has no network, and its system is read-only. "+
			"Use what is there or the standard library, or send what the program needs %s.", h.Name, f.file)
	case sandbox.HintNoNetwork:
		return fmt.Sprintf("The sandbox has no network. Send what the program needs %s; to reach a host, %s.",
			f.file, f.reach(h.Living, cmp.Or(h.Host, "HOST")))
	case sandbox.HintRefused:
		return f.refused(h)
	case sandbox.HintNotReached:
		return joined(h.Failures, func(r sandbox.NetworkFailure) string {
			return r.Target + " is allowed, but could not be reached: " + r.Reason + "."
		}, " ")
	case sandbox.HintMisplaced:
		return f.misplaced(h)
	case sandbox.HintNoModule:
		return f.noModule(h)
	case sandbox.HintNoStandard:
		return fmt.Sprintf("The module %s belongs to the standard library, in Debian package %s, which is not "+
			"installed.", h.Name, h.Package)
	case sandbox.HintNoCommands:
		names := joined(h.Commands, func(c sandbox.MissingCommand) string {
			if c.Package != "" {
				return c.Name + " (Debian package " + c.Package + ")"
			}
			return c.Name
		}, ", ")
		return fmt.Sprintf("The sandbox lacks commands that the script names: %s. Only programs of its root file "+
			"system can be used.", names)
	case sandbox.HintNoPackage:
		return fmt.Sprintf("The index has no package for the import of %s. If its package has another name or "+
			"must be built, request it by name%s; code of your own can be sent %s.",
			strings.Join(h.Modules, ", "), f.letBuild(" and let it be built: "), f.file)
	case sandbox.HintLeftOut:
		return fmt.Sprintf("Optional packages were not installed: %s.%s", some(h.Names),
			f.to("install one", h.Offer))
	case sandbox.HintMissingFile:
		name, folder := "A file was not found", ""
		if h.Name != "" {
			name = "The file " + h.Name + " was not found"
		}
		if strings.Contains(h.Name, "/") {
			folder = " If the program is to write it, make its folder first."
		}
		return fmt.Sprintf("%s: only files that were sent are in %s. Send it %s.%s", name, sandbox.Workspace, f.file,
			folder)
	case sandbox.HintReadOnly:
		return fmt.Sprintf("Only %s, %s and /tmp can be written to%s.", sandbox.Workspace, sandbox.Home,
			instead(h.Name))
	case sandbox.HintOutside:
		return fmt.Sprintf("There is no %s in the sandbox. Files are read from and written to %s%s.",
			cmp.Or(h.Name, "such file"), sandbox.Workspace, instead(h.Name))
	}
	return f.lacking(h)
}

// lacking words a hint about something that the code or its packages expect to find.
func (f Face) lacking(h sandbox.Hint) string {
	switch h := h.(type) {
	case sandbox.HintNotebook:
		if h.Name != "" {
			return "The magic %" + h.Name + " is not supported: write Python instead, or run a program with !. " +
				"%lsmagic lists those that are."
		}
		return "A line of the code begins with % or !, which only notebooks understand." +
			f.to("install packages", h.Offer)
	case sandbox.HintNoFont:
		return "Letters of a picture are missing, because no font of the root file system has them: the Debian " +
			"package " +
			h.Package + " does."
	case sandbox.HintNotBuilt:
		return cmp.Or(h.Name, "A package") + " has a native part that must be built when it is installed, and was " +
			"not." +
			f.to("build it", h.Offer) + f.letBuild(" Let it be built: ")
	case sandbox.HintData:
		return fmt.Sprintf("%s needs files that it downloads, and that are not in the sandbox. To download them, "+
			"%s; or "+
			"use a root file system or an image that has them.", h.Name, f.reach(h.Living, strings.Join(h.Hosts, ",")))
	case sandbox.HintRestart:
		return fmt.Sprintf("Other versions of %s were installed. If the context has imported them before, it keeps "+
			"the "+
			"old code until it is restarted.", some(h.Names))
	}
	return ""
}

// reach is how to allow targets, separated by commas. living is that of a sandbox which is there already.
func (f Face) reach(living bool, targets string) string {
	if living && f.recreate != nil {
		return f.recreate(targets)
	}
	return f.allow(targets)
}

// letBuild is how to let an installer build packages, after some words; "" if callers cannot.
func (f Face) letBuild(words string) string {
	if way := f.set("allow_build", ""); way != "" {
		return words + way
	}
	return ""
}

// refused words what the network policy refused.
func (f Face) refused(h sandbox.HintRefused) string {
	return joined(h.Refusals, func(r sandbox.NetworkRefusal) string {
		text := r.Target + " was refused by the network policy"
		if r.Reason != sandbox.NetworkNoRule {
			text += ": " + r.Reason
		}
		switch {
		case r.Allow == "":
			return text + "."
		case !h.Living || f.recreate == nil:
			return text + "; " + f.allow(r.Allow) + "."
		case f.allowNow == "":
			return text + "; " + f.recreate(r.Allow) + "."
		}
		return text + "; " + f.allowNow + ", or " + f.recreate(r.Allow) + "."
	}, " ")
}

// misplaced words which placeholders were not replaced. It suggests no further hosts: the code chose them.
func (f Face) misplaced(h sandbox.HintMisplaced) string {
	return joined(h.Placeholders, func(m sandbox.NetworkMisplaced) string {
		text := "The placeholder of " + m.Secret + " was sent in the " + string(m.Place) + " of a request to " +
			m.Host + " and stayed one: "
		switch {
		case m.Reason == sandbox.MisplacedHost:
			return text + "the secret is for other hosts."
		case m.Reason == sandbox.MisplacedContent:
			return text + "the value goes only into JSON and forms of up to 1MiB."
		}
		return text + "the value goes only into headers. To send it there, " + f.bind(m) + "."
	}, " ")
}

func (f Face) noModule(h sandbox.HintNoModule) string {
	name, way := "A module", f.install(h.Offer)
	if h.Name != "" {
		name = "The module " + h.Name
	}
	own := " Code of your own can be sent " + f.file + "."
	switch {
	case way != "" && h.ByName:
		return name + " is not installed, and auto does not find it. To install it before the run, " + way + "." + own
	case way != "":
		return name + " is not installed. To install it before the run, " + way + "." + own
	}
	return name + " is not installed, and packages cannot be installed here. Use another module or the standard " +
		"library." + own
}

// install is how to request packages, or "".
func (f Face) install(o sandbox.Offer) string {
	if !o.Packages {
		return ""
	}
	return f.packages(o)
}

// to is a sentence on how to get packages, for an end, if callers can.
func (f Face) to(end string, o sandbox.Offer) string {
	if way := f.install(o); way != "" {
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

// files words a hint about files that were not returned.
func files(h sandbox.Hint) string {
	switch h := h.(type) {
	case sandbox.HintSkipped:
		return skipped(h)
	case sandbox.HintUnmatched:
		text := fmt.Sprintf("No new or changed file matches %s.", some(h.Patterns))
		if len(h.New) > 0 {
			text += " New files: " + some(h.New) + "."
		}
		return text
	case sandbox.HintElsewhere:
		names := ""
		if len(h.Names) > 0 {
			names = ", such as " + strings.Join(h.Names, ", ")
		}
		return fmt.Sprintf("%s outside of %s%s, and nothing from there is returned. Write to %s.",
			count(h.Count, "file lies", "files lie"), sandbox.Workspace, names, sandbox.Workspace)
	}
	return ""
}

var skipWords = map[sandbox.SkipCode]string{
	sandbox.SkipTooLarge: "too large", sandbox.SkipTooMany: "too many files", sandbox.SkipTotal: "too large together",
	sandbox.SkipSymlink: "a symbolic link", sandbox.SkipDevice: "a device", sandbox.SkipPipe: "a pipe",
	sandbox.SkipSocket: "a socket", sandbox.SkipUnreadable: "could not be read",
	sandbox.SkipChanged: "changed while it was read", sandbox.SkipUnwritten: "could not be written",
}

func skipped(h sandbox.HintSkipped) string {
	shown := make([]string, len(h.Files))
	for i, s := range h.Files {
		name := s.Path
		if name == "" { // a name can be any text, and readers take a hint for Fumehood's own words
			name = "a file"
		}
		// a reason follows the last of its files
		if shown[i] = name; i == len(h.Files)-1 || h.Files[i+1].Code != s.Code {
			shown[i] += " (" + skipWords[s.Code] + ")"
		}
	}
	if more := h.Count - len(shown); more > 0 {
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
	9: "SIGKILL. A process of the program may have sent it; Fumehood sends it to code with very many sockets " +
		"or file locks, or that runs out of memory again and again",
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

func lost(h sandbox.HintLost) string {
	text := "The sandbox died during the run; the outcome is unknown. Run it again."
	switch {
	case h.Signal != 0:
		text += fmt.Sprintf(" Its guest was killed by signal %d.", h.Signal)
	case h.ExitCode >= 0:
		text += fmt.Sprintf(" Its guest ended with code %d.", h.ExitCode)
	}
	return text
}

func value(b sandbox.Bound) string { return sandbox.FormatLimit(b.Limit, b.Value) }

func plural(n int, one, many string) string {
	if n == 1 {
		return one
	}
	return many
}

func count(n int, one, many string) string { return fmt.Sprintf("%d %s", n, plural(n, one, many)) }

// some lists the first few names.
func some(names []string) string {
	const shown = 20
	if len(names) > shown {
		return strings.Join(names[:shown], ", ") + ", ..."
	}
	return strings.Join(names, ", ")
}
