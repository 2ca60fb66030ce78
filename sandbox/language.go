package sandbox

// Language says how to run source text. It is a plain value.
type Language struct {
	Name       string   // the name in requests: "python"
	Title      string   // for people: "Python 3"
	Aliases    []string // other names: "py", "python3"
	Extensions []string // of file names, with the dot: ".py"
	FileName   string   // default name of the code's file: "main.py"

	// Compile makes the program of the source text; nil runs the text itself.
	Compile *Compile

	// Programs are the names of interpreters, best first. The first on the sandbox's PATH is used. None executes what
	// Compile made.
	Programs []string

	// Argv is the command line that runs the file at path, without arguments of the program. Where the language
	// compiles, path is that of the compiler's output.
	Argv func(program, path string) []string

	// Cell returns the command line for code that Argv's would not run as its writer means, such as the cell of a
	// notebook; nil is Argv. It takes the place of Argv.
	Cell func(code []byte) func(program, path string) []string

	// LeastPids is the limit of processes and threads below which the interpreter waits for ever instead of failing, so
	// that a smaller one is refused; 0 is none.
	LeastPids int64

	// Env is added to the environment of every run in this language.
	Env []string

	// Offline is added to the environment of every run, in any language, if the sandbox has no network. It makes the
	// tools of this language fail at once.
	Offline []string

	// Sized returns the variables by which programs of this language keep to limits: the size of a heap, the number of
	// threads. They are added to the environment of every run, in any language, under all others. nil is none.
	Sized func(l Limits) []string

	// SizedArgs returns options of the interpreter that replace Sized for runs in this language; nil is none.
	SizedArgs func(l Limits) []string

	// Online is added to the environment of every run, in any language, if the sandbox has a network. It makes the
	// installers of this language work for the user of the code.
	Online []string

	// UserFolder returns the folder below Home in which an installer puts modules, by the name of the interpreter's
	// file: ".local/lib/python3.11/site-packages" for python3.11; "" is unknown. It exists before the first run of a
	// sandbox with a network, as an interpreter ignores one that is missing when it starts. nil is none.
	UserFolder func(interpreter string) string

	// ModulePath names the variable that lists further module folders: "PYTHONPATH". With it, code outside the
	// workspace finds modules in the workspace. "" is none.
	ModulePath string

	// Installers are the programs that download packages. They fail in a sandbox without a network.
	Installers []string

	// Apart maps modules of the standard library to the Debian packages that hold them separately.
	Apart map[string]string

	// UnixLines says that the interpreter takes a carriage return before a line feed as part of the code.
	UnixLines bool

	// NameFor names the file that holds the code, as modules and scripts may differ; nil means FileName always.
	NameFor func(code []byte) string

	// ParseError finds the uncaught exception at the end of a failed program's stderr, or returns nil. The bytes are
	// hostile.
	ParseError func(stderr []byte) *Exception

	// Diagnose finds likely causes at the end of a failed program's output, most telling first. Package diagnose adds
	// what the engine knows. It is called for programs of other languages too, which may have started one of this. The
	// text is hostile.
	Diagnose func(output string) []Symptom

	// Lines makes the interpreter write its output by lines. The engine uses it for programs without a terminal and
	// without interactive input, on a backend that is LineBuffered. Env has lists of folders, to which it adds one at
	// the beginning. nil is none.
	Lines *Startup

	// Zygote says how to keep the interpreter waiting just before its program; nil means it cannot.
	Zygote *Zygote

	// Driver says how to keep an interpreter alive between runs; nil means it cannot.
	Driver *Driver

	// Installer says how packages are found and installed; nil means they cannot be.
	Installer *Installer

	// Missing says what to do if the root file system lacks the interpreter.
	Missing Missing

	// Probe is a program in this language that prints "42\n"; tests and doctor run it.
	Probe string

	// Survey is a program in this language that prints a LanguageSurvey as JSON.
	Survey string
}

// Missing says how to get a missing interpreter.
type Missing struct {
	Fix   string // how to install it on the host
	Image string // an image that has it, for a run whose root is an image
}

// LanguageSurvey describes the interpreter of a language in a sandbox.
type LanguageSurvey struct {
	Version         string   `json:"version"`
	StandardLibrary bool     `json:"standard_library"`
	Modules         []Module `json:"modules"`
}

// Module is what code can import besides the standard library; of a shell, a command.
type Module struct {
	Name    string `json:"name"`    // as in an import statement
	Version string `json:"version"` // "" if unknown
}
