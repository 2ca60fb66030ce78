package engine

import (
	"bytes"
	"fmt"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// hint explains an end in one or two sentences that a model can act on. It holds no bytes of the
// program's but plain names of its files.
func hint(x *execution, o *outcome, r *sandbox.Result) string {
	parts := []string{endHint(x, o, r)}
	for _, s := range []struct {
		name string
		c    *sandbox.Captured
	}{{"stdout", &r.Stdout}, {"stderr", &r.Stderr}} {
		if s.c.Dropped > 0 && r.Status != sandbox.StatusOutputLimit {
			parts = append(parts, fmt.Sprintf("%s went over its limit of %s: %s in the middle were left out; write less, or to a file.",
				s.name, x.limit(sandbox.LimitOutput), sandbox.FormatBytes(s.c.Dropped)))
		}
	}
	parts = append(parts, SkippedHint(r.Skipped))
	return strings.Join(strings.Fields(strings.Join(parts, " ")), " ")
}

const (
	hintedFiles = 5  // files that a hint names
	hintedName  = 60 // bytes of the longest name that it shows
)

// SkippedHint is the part of a hint, its last, that tells of files that were not handed back; "" where there are none.
func SkippedHint(files []sandbox.Skipped) string {
	if len(files) == 0 {
		return ""
	}
	var shown []string
	for _, f := range files[:min(len(files), hintedFiles)] {
		reason, _, _ := strings.Cut(strings.TrimPrefix(strings.TrimPrefix(f.Reason, "it "), "is "), ",")
		switch {
		case f.Path == "":
			reason = f.Reason
		case plainName(f.Path):
			reason = f.Path + " (" + reason + ")"
		default: // a name can be any text, and a hint is read as Glovebox's own words
			reason = "a file (" + reason + ")"
		}
		shown = append(shown, reason)
	}
	if more := len(files) - len(shown); more > 0 {
		shown = append(shown, fmt.Sprintf("and %d more", more))
	}
	return fmt.Sprintf("%s not handed back: %s.", count(len(files), "file was", "files were"), strings.Join(shown, ", "))
}

func plainName(name string) bool {
	const plain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-/"
	return len(name) <= hintedName && strings.Trim(name, plain) == ""
}

// idleShare is the part of its wall time below which a program that was killed at its deadline has waited rather than worked.
const idleShare = 20

func endHint(x *execution, o *outcome, r *sandbox.Result) string {
	memory := x.limit(sandbox.LimitMemory)
	switch r.Status {
	case sandbox.StatusSucceeded:
		if o.oom > 0 {
			return fmt.Sprintf("The program succeeded, but the kernel killed %s of it at the memory limit of %s; their work may be missing.",
				count(int(o.oom), "process", "processes"), memory)
		}
		return ""
	case sandbox.StatusFailed:
		return failureHint(x, r)
	case sandbox.StatusTimeout:
		return timeoutHint(x, o, r)
	case sandbox.StatusOutOfMemory:
		if o.cause == causeLost {
			return fmt.Sprintf("The sandbox reached its %s memory limit and the kernel ended all of it, with its files; use less memory at a time, "+
				"or ask for a higher limit.", memory)
		}
		return fmt.Sprintf("The process reached its %s memory limit and was killed by the kernel; use less memory at a time, "+
			"or ask for a higher limit.", memory)
	case sandbox.StatusOutputLimit:
		return fmt.Sprintf("The program was killed because it went on writing far past its output limit of %s; only the beginning "+
			"and the latest output are kept. Print less, or write to a file.", x.limit(sandbox.LimitOutput))
	case sandbox.StatusKilled:
		return signalHint(r.Signal)
	case sandbox.StatusCanceled:
		return "The run was canceled before it ended, and all its processes were killed."
	case sandbox.StatusRejected:
		return fmt.Sprintf("Nothing ran: %.80q is not among the commands that the policy allows: %s.", x.Argv[0], allowed(x.Spec.Commands))
	case sandbox.StatusLost:
		return lostHint(o)
	}
	return ""
}

func timeoutHint(x *execution, o *outcome, r *sandbox.Result) string {
	text := fmt.Sprintf("The program did not end within its time limit of %s and was killed", x.limit(sandbox.LimitTimeout))
	switch {
	case containsAny(end(&r.Stderr), noMoreProcesses) || containsAny(end(&r.Stdout), noMoreProcesses):
		text += ". " + atProcessLimit(x)
	case o.usage.CPU >= 0 && o.usage.CPU < o.usage.Wall/idleShare:
		text += "; it used almost no CPU time." + waitedHint(x)
	default:
		text += "; do less work, or ask for a longer timeout."
	}
	if o.oom > 0 {
		text += fmt.Sprintf(" It had also reached its memory limit of %s.", x.limit(sandbox.LimitMemory))
	}
	return text
}

// waitedHint says what a program may have waited for that never comes.
func waitedHint(x *execution) string {
	noInput, noNetwork := len(x.request.Stdin) == 0, x.Spec.Network.Mode == sandbox.NetworkNone
	switch {
	case noInput && noNetwork:
		return " If it waited for input or for the network: there is neither here."
	case noInput:
		return " If it waited for input: there is none here."
	case noNetwork:
		return " If it waited for the network: there is none here."
	}
	return ""
}

// noMoreProcesses is what programs print whose fork or thread was refused.
var noMoreProcesses = []string{"can't start new thread", "Resource temporarily unavailable", "fork: retry"}

// fullHint says how much room there is, and how that is kept: some backends bound no inodes, some share the room out, and none bounds what
// lies in directories of the host.
func fullHint(x *execution) string {
	p := x.live.box.Effective()
	text := "A writable place is full: all files together may take " + x.limit(sandbox.LimitDisk)
	if p.Limits.Inodes > 0 && p.Enforcers[sandbox.LimitInodes] != "" {
		text += " and " + count(int(p.Limits.Inodes), "inode", "inodes")
	}
	if by := p.Enforcers[sandbox.LimitDisk]; by != "" {
		text += " (" + by + ")"
	}
	return text + "."
}

func atProcessLimit(x *execution) string {
	return fmt.Sprintf("It may have reached its limit of %s processes and threads.", x.limit(sandbox.LimitPids))
}

// end is the end of a stream, where the reason of a failure is.
func end(c *sandbox.Captured) string {
	const looked = 16 << 10
	tail := c.Tail
	if c.Dropped == 0 {
		tail = c.Head
	}
	return string(tail[max(0, len(tail)-looked):])
}

func containsAny(text string, words []string) bool {
	return slices.ContainsFunc(words, func(word string) bool { return strings.Contains(text, word) })
}

// What callers do about a thing that is missing, in words that a face may replace by its own.
const (
	SendStdin = "send stdin with the request"
	SendFile  = "send it along as a file"
)

// symptoms are what programs print when they meet a wall, and what to say then. The text comes from the program, so this is
// advice and decides nothing.
var symptoms = []struct {
	text []string
	hint func(x *execution) string
}{
	{[]string{"No space left on device", "ENOSPC"}, fullHint},
	{noMoreProcesses, atProcessLimit},
	{[]string{"Too many open files"}, func(x *execution) string {
		return fmt.Sprintf("It reached its limit of %s open files.", x.limit(sandbox.LimitOpenFiles))
	}},
	{[]string{"require is not defined in ES module scope"}, func(*execution) string {
		return "Code with import, export or an await outside of functions is a module, and has no require: write import instead."
	}},
	{[]string{"ModuleNotFoundError", "Cannot find module", "ERR_MODULE_NOT_FOUND"}, func(*execution) string {
		return "A module is not there. If it is a file of yours, send it along; if it is a package, it is not installed and cannot be: " +
			"use another one, or the standard library."
	}},
	{[]string{"externally-managed-environment"}, func(*execution) string {
		return "Packages cannot be installed in the sandbox; use those that are there, or the standard library."
	}},
	{[]string{"Temporary failure in name resolution", "Network is unreachable", "ENETUNREACH", "EAI_AGAIN",
		"Could not resolve host"}, func(x *execution) string {
		if x.Spec.Network.Mode == sandbox.NetworkNone {
			return "The sandbox has no network; send what the program needs as files."
		}
		return "Not every address may be reached from the sandbox."
	}},
	{[]string{"Read-only file system"}, func(*execution) string {
		return fmt.Sprintf("Only %s, %s and /tmp can be written to.", sandbox.Workspace, sandbox.Home)
	}},
	{[]string{"MemoryError", "JavaScript heap out of memory", "Cannot allocate memory"}, func(x *execution) string {
		return fmt.Sprintf("It ran out of memory; the limit is %s.", x.limit(sandbox.LimitMemory))
	}},
	{[]string{"EOFError", "EOF when reading a line"}, func(x *execution) string {
		if len(x.request.Stdin) > 0 {
			return ""
		}
		return "It read from stdin, which is empty; " + SendStdin + "."
	}},
	{[]string{"FileNotFoundError", "ENOENT", "No such file or directory"}, func(*execution) string { // last: others say more
		return fmt.Sprintf("A file was not found: only those that were sent along are in %s, and nothing else of the caller's is.",
			sandbox.Workspace)
	}},
}

// FailedHint is what is said of every program that failed and wrote to stderr.
func FailedHint(code int) string {
	return fmt.Sprintf("The program ended with exit code %d; stderr says why.", code)
}

func failureHint(x *execution, r *sandbox.Result) string {
	text := FailedHint(r.ExitCode)
	switch {
	case len(r.Stderr.Head) == 0:
		text = fmt.Sprintf("The program ended with exit code %d and wrote nothing to stderr.", r.ExitCode)
	case r.ExitCode == 127:
		text = "The program ended with exit code 127: a command was probably not found; stderr names it."
	}
	if bytes.HasPrefix(bytes.TrimSpace(x.request.Code), []byte("```")) {
		return text + " The code begins with a Markdown fence; send it without the lines of ```."
	}
	tail := end(&r.Stderr)
	for _, s := range symptoms {
		if containsAny(tail, s.text) {
			return text + " " + s.hint(x)
		}
	}
	return text
}

// signals are named by Linux's numbers, which those of this host need not be.
var signals = map[int]string{
	11: "SIGSEGV: it touched memory that is not its own, a defect of the program or of a native library",
	7:  "SIGBUS: it touched memory that could not be had, perhaps of a mapped file on a full disk",
	6:  "SIGABRT: it gave itself up, and stderr may say why",
	8:  "SIGFPE: an arithmetic error such as an integer division by zero",
	4:  "SIGILL: an instruction that this CPU does not have",
	31: "SIGSYS: a system call that the sandbox forbids",
	9:  "SIGKILL, which a process of the program may have sent; so does Glovebox to one with tens of thousands of file locks or sockets",
	15: "SIGTERM, which was not sent by Glovebox",
	13: "SIGPIPE: it wrote to a pipe that nobody reads",
	24: "SIGXCPU: it used up its CPU time",
	25: "SIGXFSZ: a file grew past the largest size that is allowed",
}

func signalHint(signal int) string {
	if text, ok := signals[signal]; ok {
		return "The program was ended by " + text + "."
	}
	return fmt.Sprintf("The program was ended by signal %d.", signal)
}

func lostHint(o *outcome) string {
	text := "The sandbox was lost while the program ran, so the outcome is unknown; running it again is safe for the host."
	switch {
	case o.ended && o.end.Signal != 0:
		text += fmt.Sprintf(" Its guest was killed by signal %d.", o.end.Signal)
	case o.ended:
		text += fmt.Sprintf(" Its guest ended with code %d.", o.end.ExitCode)
	}
	return text
}

// limit renders the value of a limit of the execution.
func (x *execution) limit(name sandbox.LimitName) string {
	return sandbox.FormatLimit(name, x.Spec.Limits.Get(name))
}

func count(n int, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return fmt.Sprintf("%d %s", n, many)
}

func allowed(commands []string) string {
	const shown = 20
	if len(commands) > shown {
		return strings.Join(commands[:shown], ", ") + ", ..."
	}
	return strings.Join(commands, ", ")
}
