package sandbox

// Language says how source text is run. It is a plain value; each lives in a folder of its own.
type Language struct {
	Name       string   // the word users say: "python"
	Title      string   // for people: "Python 3"
	Aliases    []string // other words for it: "py", "python3"
	Extensions []string // of file names, with the dot: ".py"
	FileName   string   // what the code is called where it has no name: "main.py"

	// Programs are the names of interpreters, best first; the first that the root holds on PATH is used.
	Programs []string

	// Argv is the command line that runs the file at path: the interpreter's options, the path, no arguments of the program.
	Argv func(program, path string) []string

	// Env is added to the environment of every execution in this language.
	Env []string

	// Offline is added to the environment of every execution, in any language, where the sandbox has no network: it has the tools of this
	// language fail at once there.
	Offline []string

	// ModulePath names the variable that lists further folders to search for modules: "PYTHONPATH". It lets code that lies
	// outside the workspace find the modules in it; "" is none.
	ModulePath string

	// Installers are the programs that fetch packages or programs: a sandbox without a network has no use for them.
	Installers []string

	// Instead says what to send in place of languages that are not run and that many take for this one, by their names and extensions, in
	// lower case and without the dot.
	Instead map[string]string

	// Name of the file that holds the code, given the code; nil means FileName always. It is how a language tells, say,
	// modules from scripts.
	NameFor func(code []byte) string

	// ParseError finds the uncaught exception in the end of a failed program's stderr, or returns nil. The bytes are hostile.
	ParseError func(stderr []byte) *Exception

	// Diagnose reads the end of the output of a failed program and says what it ran into, the most telling first: codes, names and limits;
	// the engine adds what it knows. It is asked also about programs of other languages, which may have started one of this. The text is
	// hostile.
	Diagnose func(output string) []Hint

	// Zygote says how the interpreter can be kept waiting just before its program; nil is not at all.
	Zygote *Zygote

	// Fix says how to get the interpreter where the root lacks it.
	Fix string

	// Image is one that holds the interpreter, for the fix where the root is an image.
	Image string

	// Probe is a program in this language that prints "42\n"; tests and doctor run it.
	Probe string

	// Inventory is a program in this language that prints an Inventory as JSON.
	Inventory string
}

// Inventory is what the interpreter of a language found where it ran.
type Inventory struct {
	Version         string   `json:"version"`
	StandardLibrary bool     `json:"standard_library"`
	Modules         []Module `json:"modules"`
}

// Module is something that code can import beside the standard library; of a shell, a command.
type Module struct {
	Name    string `json:"name"`    // as an import statement says it
	Version string `json:"version"` // "" where it says none
}
