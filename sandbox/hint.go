package sandbox

// HintCode names what a hint is about. Each face puts codes and facts into its own words.
type HintCode string

// How an execution ended.
const (
	HintExitCode    HintCode = "exit_code"         // it ended with ExitCode; Silent: nothing was on stderr
	HintSignal      HintCode = "signal"            // Signal ended it
	HintInterrupted HintCode = "interrupted"       // it ended itself with SIGINT, as an uncaught KeyboardInterrupt does
	HintTimeout     HintCode = "timeout"           // it was killed at its Limit
	HintWaited      HintCode = "waited"            // and had used almost no CPU time; NoInput and NoNetwork say what it may have waited for
	HintStuck       HintCode = "stuck"             // it was killed at its Limit after it had met another one, which the next hint names
	HintCanceled    HintCode = "canceled"          // it was canceled while it ran
	HintNotStarted  HintCode = "not_started"       // it was canceled before it ran
	HintRejected    HintCode = "rejected"          // the policy allows Names and not Name; nothing ran
	HintLost        HintCode = "lost"              // the sandbox is gone; ExitCode or Signal is that of its guest, where known
	HintNoCommand   HintCode = "command_not_found" // no program Name is in the sandbox; Others would do
	HintNoFile      HintCode = "program_not_found" // there is no file Name to execute
	HintNoLoader    HintCode = "no_interpreter"    // the file Name asks for an interpreter or loader that is not there
	HintNotProgram  HintCode = "not_executable"    // the file Name cannot be executed
)

// Limits that were met.
const (
	HintMemory       HintCode = "memory"         // the program ran out of memory, as it says itself
	HintMemoryKilled HintCode = "memory_killed"  // the kernel killed the program at its memory limit
	HintMemoryEnded  HintCode = "memory_ended"   // the kernel ended the whole sandbox at its memory limit
	HintChildren     HintCode = "children_lost"  // the kernel killed Count processes at the memory limit, and the program went on
	HintLimit        HintCode = "limit"          // it reached Limit: processes, open files, disk or inodes. By may say how that is kept
	HintOutputEnded  HintCode = "output_ended"   // it was killed as it wrote far past its output limit
	HintOutput       HintCode = "output_dropped" // Count bytes of the stream Name were dropped
)

// What a program tried that a sandbox has not.
const (
	HintNotAllowed  HintCode = "command_not_allowed" // it tried to execute Name; the policy allows Names
	HintNoInstall   HintCode = "no_install"          // the installer Name cannot install here
	HintNoNetwork   HintCode = "no_network"          // there is no network
	HintUnreachable HintCode = "unreachable"         // the network does not reach every address
	HintNoModule    HintCode = "no_module"           // the module Name is not there; Name may be ""
	HintNoInput     HintCode = "no_input"            // it read from an empty stdin
	HintMissingFile HintCode = "missing_file"        // the file Name is not there; Name may be ""
	HintReadOnly    HintCode = "read_only"           // the place Name cannot be written to; Name may be ""
	HintOutside     HintCode = "outside"             // the path Name lies outside of what a sandbox has for files
	HintTerminal    HintCode = "no_terminal"         // it opened a terminal of its own, which its spec does not allow
	HintFence       HintCode = "markdown_fence"      // the code begins with a Markdown fence
	HintESModule    HintCode = "es_module"           // an ECMAScript module calls require
)

// What did not come back.
const (
	HintSkipped   HintCode = "skipped"         // Count files were not handed back; Files are the first of them
	HintNoFiles   HintCode = "files_lost"      // the files could not be read
	HintUnlisted  HintCode = "unlisted"        // there are too many files, or paths too long, to look at all of them
	HintPatterns  HintCode = "patterns"        // the patterns took too long to match against so many paths
	HintUnmatched HintCode = "unmatched"       // no file that was made matches the patterns Names; Others were made
	HintElsewhere HintCode = "files_elsewhere" // Count files lie outside of the workspace; Names are the first
	HintLeft      HintCode = "left_running"    // Count background processes were killed when the program ended
)

// What would help where Glovebox failed or refused, in words that each face has of its own. Error.Hint has one of these.
const (
	FixSendFile HintCode = "send_file"      // send the file along
	FixImage    HintCode = "choose_image"   // choose an image, such as Name, or any that is there
	FixRoot     HintCode = "choose_root"    // choose a directory that holds it as the root file system
	FixBackend  HintCode = "choose_backend" // choose one of the backends Names
	FixRaise    HintCode = "raise_limit"    // ask for more of Limit
)

// Hint is one thing worth knowing about an execution or an error, and what would help, as facts. Names are plain text that is safe to show:
// letters, digits and the punctuation of paths.
type Hint struct {
	Code HintCode

	Name   string
	Names  []string
	Others []string
	Count  int64
	Files  []Skipped

	Limit LimitName
	Value int64  // of Limit, in the unit of its field
	Raise int64  // a higher value of Limit that may be asked for; 0 is none
	By    string // how Limit is enforced; of a command that was not found, the PATH that the caller has set

	ExitCode  int
	Signal    int
	Silent    bool
	NoInput   bool
	NoNetwork bool
}
