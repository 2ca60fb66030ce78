package sandbox

// HintCode names the subject of a hint. Each face puts codes and facts into its own words.
type HintCode string

// How an execution ended.
const (
	HintExitCode    HintCode = "exit_code"         // it ended with ExitCode; Silent: nothing was on stderr
	HintSignal      HintCode = "signal"            // Signal ended it
	HintInterrupted HintCode = "interrupted"       // it ended itself with SIGINT, as an uncaught KeyboardInterrupt does
	HintTimeout     HintCode = "timeout"           // it was killed at its Limit
	HintWaited      HintCode = "waited"            // beside HintTimeout: it had used almost no CPU time; NoInput and NoNetwork are likely causes
	HintStuck       HintCode = "stuck"             // it was killed at its Limit after it had reached another one, which the next hint names
	HintCanceled    HintCode = "canceled"          // it was canceled while it ran
	HintNotStarted  HintCode = "not_started"       // it was canceled before it ran
	HintRejected    HintCode = "rejected"          // the policy allows Names and not Name; nothing ran
	HintChecks      HintCode = "checks"            // the checks refuse the code by the rule Name; nothing ran. Names has its advice
	HintLost        HintCode = "lost"              // the sandbox is gone; ExitCode or Signal is that of its guest, where known
	HintNotCompiled HintCode = "not_compiled"      // the compiler failed, so nothing ran; ExitCode is its own, -1 if there is none
	HintNoCommand   HintCode = "command_not_found" // no program Name is in the sandbox; Others would do
	HintNoFile      HintCode = "program_not_found" // there is no file Name to execute
	HintNoLoader    HintCode = "no_interpreter"    // the interpreter or loader of the file Name is missing
	HintNotProgram  HintCode = "not_executable"    // the file Name cannot be executed
)

// What became of a context.
const (
	HintStateKept HintCode = "state_kept" // the code was interrupted; the state of its context stays
	HintStateLost HintCode = "state_lost" // the interpreter of the context Name has ended, and its state with it
)

// Limits that were reached.
const (
	HintMemory       HintCode = "memory"         // the program reported that it ran out of memory
	HintMemoryKilled HintCode = "memory_killed"  // the kernel killed the program at its memory limit
	HintMemoryEnded  HintCode = "memory_ended"   // the kernel ended the whole sandbox at its memory limit
	HintChildren     HintCode = "children_lost"  // the kernel killed Count processes at the memory limit; the program went on
	HintLimit        HintCode = "limit"          // it reached Limit: processes, open files, disk or inodes. By may say how that is enforced
	HintOutputEnded  HintCode = "output_ended"   // it was killed after writing far past its output limit
	HintOutput       HintCode = "output_dropped" // Count bytes of the stream Name were dropped
)

// What a program tried that a sandbox does not offer.
const (
	HintNotAllowed  HintCode = "command_not_allowed" // it tried to execute Name; the policy allows Names
	HintNoInstall   HintCode = "no_install"          // the installer Name cannot install here; packages of the language By can be had
	HintNoNetwork   HintCode = "no_network"          // there is no network
	HintRefused     HintCode = "network_refused"     // the network policy refused Names, which it could allow, and Others, each with its reason after a colon
	HintUnreachable HintCode = "unreachable"         // the network does not reach every address
	HintNoModule    HintCode = "no_module"           // the module Name is missing; Name may be ""
	HintNoStandard  HintCode = "no_standard_module"  // the module Name of the standard library is missing, which the Debian package Package has
	HintNoPackage   HintCode = "no_package"          // no package was found for the modules Names
	HintLeftOut     HintCode = "packages_left_out"   // the packages Names were not installed, as the code can do without
	HintNoCommands  HintCode = "commands_missing"    // a script names the commands Names, which are not there; Others are their Debian packages, "" if unknown
	HintNoInput     HintCode = "no_input"            // it read from an empty stdin
	HintMissingFile HintCode = "missing_file"        // the file Name is not there; Name may be ""
	HintReadOnly    HintCode = "read_only"           // the place Name cannot be written to; Name may be ""
	HintOutside     HintCode = "outside"             // the path Name lies outside of what a sandbox has for files
	HintTerminal    HintCode = "no_terminal"         // it opened a terminal of its own, which its spec does not allow
	HintFence       HintCode = "markdown_fence"      // the code begins with a Markdown fence
	HintNotebook    HintCode = "notebook_line"       // a line of the code is for notebooks: it begins with % or !
	HintESModule    HintCode = "es_module"           // an ECMAScript module calls require
)

// What was not returned.
const (
	HintSkipped   HintCode = "skipped"         // Count files were not returned; Files are the first
	HintNoFiles   HintCode = "files_lost"      // the files could not be read
	HintUnlisted  HintCode = "unlisted"        // not all files were examined: too many, or paths too long
	HintPatterns  HintCode = "patterns"        // the patterns took too long to match against so many paths
	HintUnmatched HintCode = "unmatched"       // no new file matches the patterns Names; Others are new
	HintElsewhere HintCode = "files_elsewhere" // Count files are outside the workspace; Names are the first
	HintLeft      HintCode = "left_running"    // Count background processes were killed when the program ended; not in a living sandbox, where they run on
)

// Fixes of errors that each face words itself, for Error.Hint.
const (
	FixSendFile HintCode = "send_file"      // send the file along
	FixImage    HintCode = "choose_image"   // choose an image, such as Name, or any local one
	FixRoot     HintCode = "choose_root"    // choose a root file system that holds it
	FixBackend  HintCode = "choose_backend" // choose one of the backends Names
	FixRaise    HintCode = "raise_limit"    // raise Limit
)

// Hint is one fact about an execution or an error, with what would help. Names are safe to show: letters, digits and the punctuation
// of paths.
type Hint struct {
	Code HintCode

	Name   string
	Names  []string
	Others []string
	Count  int64
	Files  []Skipped

	Limit LimitName
	Value int64  // of Limit, in the unit of its field
	Raise int64  // a higher value of Limit that is allowed; 0 is none
	By    string // how Limit is enforced; of HintNoCommand, the PATH that the caller set; of HintNoInstall, the title of a language

	ExitCode  int
	Signal    int
	Silent    bool
	NoInput   bool
	NoNetwork bool
	Living    bool // of HintNoNetwork and HintRefused: the sandbox was there before, and lives on

	CanInstall bool   // packages can be asked for
	ByName     bool   // beside CanInstall: by name, not as auto
	InCode     bool   // beside CanInstall: also by a line of the code, such as %pip install
	Package    string // that has Name, "" if unknown; of HintNoCommand and HintNoStandard a Debian package
}
