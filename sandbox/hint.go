package sandbox

import "slices"

// HintCode names a kind of hint on the wire.
type HintCode string

// Hint is one fact about a run, or a fix of an error. Each code has a type, which holds its facts. Each face words
// hints itself. Names are safe to show: letters, digits and the punctuation of paths. "" is unknown.
type Hint interface{ Code() HintCode }

// HintOf returns the first hint of type T.
func HintOf[T Hint](hints []Hint) (found T, ok bool) {
	for _, h := range hints {
		if found, ok = h.(T); ok {
			break
		}
	}
	return found, ok
}

// WithoutHint returns the hints that are not of type T.
func WithoutHint[T Hint](hints []Hint) []Hint {
	return slices.DeleteFunc(slices.Clone(hints), func(h Hint) bool { _, is := h.(T); return is })
}

// Note is a hint without facts.
type Note HintCode

// The end of a run and of the state of its context.
const (
	HintInterrupted Note = "interrupted" // the program ended itself with SIGINT, as an uncaught KeyboardInterrupt does
	HintCanceled    Note = "canceled"    // the run was canceled while it ran
	HintNotStarted  Note = "not_started" // the run was canceled before it ran
	HintStateKept   Note = "state_kept"  // the code was interrupted; the state of its context stays
)

// What a program tried that a sandbox does not offer, and mistakes in code.
const (
	HintUnreachable Note = "unreachable"    // the program could not reach a host, for no reason that the gate knows
	HintNoInput     Note = "no_input"       // it read from an empty stdin
	HintTerminal    Note = "no_terminal"    // it opened a terminal, which its spec does not allow
	HintFence       Note = "markdown_fence" // the code begins with a Markdown fence
	HintUserFolder  Note = "user_folder"    // uv installed into a folder of the system, which is read-only
	HintNested      Note = "nested_sandbox" // a browser tried to make a sandbox of its own
	HintESModule    Note = "es_module"      // an ECMAScript module calls require
)

// Why files were not returned.
const (
	HintNoFiles  Note = "files_lost" // the files could not be read
	HintUnlisted Note = "unlisted"   // not all files were examined: too many, or paths too long
	HintPatterns Note = "patterns"   // the patterns took too long to match against so many paths
)

// Bound is a limit that a run reached. Package api converts its units on the wire.
type Bound struct {
	Limit LimitName `json:"limit"`
	Value int64     `json:"value"`           // in the unit of Limits
	Raise int64     `json:"raise,omitempty"` // a higher value that is allowed; 0: none
}

// Named is the name of a file or a program.
type Named struct {
	Name string `json:"name,omitempty"`
}

// Offer says how packages can be requested.
type Offer struct {
	Packages bool   `json:"can_install,omitempty"` // whether they can be requested
	ByName   bool   `json:"by_name,omitempty"`     // by name; auto does not find them
	InCode   bool   `json:"in_code,omitempty"`     // also by a line of the code, such as %pip install
	Package  string `json:"package,omitempty"`     // the name to request
}

// The hints about how a run ended.
type (
	// HintExitCode: the program ended with a code other than 0, and wrote nothing to stderr.
	HintExitCode struct {
		ExitCode int `json:"exit_code"`
	}
	// HintSignal: a signal ended the program.
	HintSignal struct {
		Signal int `json:"signal"`
	}
	// HintTimeout: the run was killed at its time limit.
	HintTimeout struct{ Bound }
	// HintStuck: the run was killed at its time limit after it had reached another limit, which the next hint names.
	HintStuck struct{ Bound }
	// HintWaited: the run was killed at its time limit and had used almost no CPU time.
	HintWaited struct {
		Bound
		NoNetwork bool `json:"no_network,omitempty"` // a likely cause: there was no network
	}
	// HintRejected: the policy does not allow the command; nothing ran.
	HintRejected struct {
		Name    string   `json:"name,omitempty"`
		Allowed []string `json:"allowed"`
	}
	// HintChecks: the checks refuse the code; nothing ran.
	HintChecks struct {
		Rule   string `json:"rule"`
		Advice string `json:"advice"`
	}
	// HintLost: the sandbox is gone. ExitCode or Signal is that of its guest; -1 and 0 are unknown.
	HintLost struct {
		ExitCode int `json:"exit_code"`
		Signal   int `json:"signal,omitempty"`
	}
	// HintNotCompiled: the compiler failed, so nothing ran. ExitCode is the compiler's; -1 if there is none.
	HintNotCompiled struct {
		ExitCode int `json:"exit_code"`
	}
	// HintNoCommand: the sandbox has no such program.
	HintNoCommand struct {
		Name    string   `json:"name,omitempty"`
		Path    string   `json:"path,omitempty"`    // PATH, if the caller set it
		Instead []string `json:"instead,omitempty"` // programs that would do
		Package string   `json:"package,omitempty"` // the Debian package that has it
	}
	// HintNoFile: the file to execute is missing.
	HintNoFile struct{ Named }
	// HintNoLoader: the interpreter or loader of a file is missing.
	HintNoLoader struct{ Named }
	// HintNotProgram: the file cannot be executed.
	HintNotProgram struct{ Named }
	// HintLineEnds: a script has Windows line ends, which its interpreter does not accept.
	HintLineEnds struct{ Named }
	// HintStateLost: the interpreter of a context has ended, and its state with it.
	HintStateLost struct {
		Context string `json:"context"`
	}
)

// The hints about limits that a run reached.
type (
	// HintMemory: the program reported that it ran out of memory.
	HintMemory struct{ Bound }
	// HintMemoryKilled: the program was killed at its memory limit.
	HintMemoryKilled struct{ Bound }
	// HintMemoryEnded: the kernel ended the whole sandbox at its memory limit.
	HintMemoryEnded struct{ Bound }
	// HintChildren: processes were killed at the memory limit; the program went on.
	HintChildren struct {
		Bound
		Count int64 `json:"count"`
	}
	// HintLimit: processes, open files, disk or inodes.
	HintLimit struct {
		Bound
		Enforcer string `json:"enforcer,omitempty"` // of the disk
	}
	// HintOutputEnded: the run was killed after it wrote far past its output limit.
	HintOutputEnded struct{ Bound }
	// HintOutput: output of a stream was dropped.
	HintOutput struct {
		Bound
		Stream string `json:"stream"`
		Bytes  int64  `json:"bytes"`
	}
)

// The hints about what a program tried that its sandbox does not offer.
type (
	// HintNotAllowed: the program tried to execute a command that the policy does not allow.
	HintNotAllowed struct {
		Name    string   `json:"name"`
		Allowed []string `json:"allowed"`
	}
	// HintNoInstall: the installer Name cannot install here.
	HintNoInstall struct {
		Name     string `json:"name"`
		Language string `json:"language,omitempty"` // whose packages the offer is for
		Offer
	}
	// HintNoNetwork: there is no network.
	HintNoNetwork struct {
		Host   string `json:"host,omitempty"`   // that the program tried to reach
		Living bool   `json:"living,omitempty"` // the sandbox was there before, and lives on
	}
	// HintRefused: the network policy refused connections.
	HintRefused struct {
		Refusals []NetworkRefusal `json:"refusals"`
		Living   bool             `json:"living,omitempty"`
	}
	// HintNotReached: the network policy allows destinations that could not be reached.
	HintNotReached struct {
		Failures []NetworkFailure `json:"failures"`
	}
	// HintMisplaced: placeholders of secrets were sent where no value replaced them.
	HintMisplaced struct {
		Placeholders []NetworkMisplaced `json:"placeholders"`
	}
	// HintNoModule: a module is missing.
	HintNoModule struct {
		Name string `json:"name,omitempty"`
		Offer
	}
	// HintNoStandard: a module of the standard library is missing, which a Debian package has.
	HintNoStandard struct {
		Name    string `json:"name"`
		Package string `json:"package"`
	}
	// HintNoPackage: no package was found for modules.
	HintNoPackage struct {
		Modules []string `json:"modules"`
	}
	// HintLeftOut: packages were not installed, because the code can do without.
	HintLeftOut struct {
		Names []string `json:"names"`
		Offer
	}
	// HintNoCommands: a script names commands that are missing.
	HintNoCommands struct {
		Commands []MissingCommand `json:"commands"`
	}
	// HintMissingFile: a file is missing.
	HintMissingFile struct{ Named }
	// HintReadOnly: a place cannot be written to.
	HintReadOnly struct{ Named }
	// HintOutside: a path lies outside of the places that a sandbox has for files.
	HintOutside struct{ Named }
	// HintNotebook: the code has notebook syntax that is not supported. Name is a magic that a context lacks: "sql".
	HintNotebook struct {
		Named
		Offer
	}
	// HintNoFont: no font of the root has letters of a picture. Package is the Debian package of one.
	HintNoFont struct {
		Package string `json:"package"`
	}
	// HintNotBuilt: a package lacks its native part, which must be built when the package is installed.
	HintNotBuilt struct {
		Named
		Offer
	}
	// HintData: the library Name lacks data or programs that it downloads from Hosts.
	HintData struct {
		Name   string   `json:"name"`
		Hosts  []string `json:"hosts"`
		Living bool     `json:"living,omitempty"`
	}
	// HintRestart: packages were replaced that the context may have imported before. It keeps their old code.
	HintRestart struct {
		Names   []string `json:"names"`
		Context string   `json:"context"`
	}
)

// MissingCommand is a command that a script names.
type MissingCommand struct {
	Name    string `json:"name"`
	Package string `json:"package,omitempty"` // the Debian package that has it
}

// The hints about files that were not returned and processes that ran on.
type (
	// HintSkipped: files were not returned. Files has the first.
	HintSkipped struct {
		Count int       `json:"count"`
		Files []Skipped `json:"files"`
	}
	// HintUnmatched: no new file matches the patterns.
	HintUnmatched struct {
		Patterns []string `json:"patterns"`
		New      []string `json:"new,omitempty"`
	}
	// HintElsewhere: files lie outside of the workspace. Names has the first.
	HintElsewhere struct {
		Count int      `json:"count"`
		Names []string `json:"names,omitempty"`
	}
	// HintLeft: background processes were killed when the program ended.
	HintLeft struct {
		Count int `json:"count"`
	}
)

// Hints has each kind of hint and fix once, by code.
var Hints = func() map[HintCode]Hint {
	all := map[HintCode]Hint{}
	for _, h := range []Hint{
		HintInterrupted, HintCanceled, HintNotStarted, HintStateKept, HintUnreachable, HintNoInput, HintTerminal,
		HintFence, HintUserFolder, HintNested, HintESModule,
		HintNoFiles, HintUnlisted, HintPatterns,
		HintExitCode{}, HintSignal{}, HintTimeout{}, HintStuck{}, HintWaited{}, HintRejected{}, HintChecks{},
		HintLost{}, HintNotCompiled{},
		HintNoCommand{}, HintNoFile{}, HintNoLoader{}, HintNotProgram{}, HintLineEnds{}, HintStateLost{},
		HintMemory{}, HintMemoryKilled{}, HintMemoryEnded{}, HintChildren{}, HintLimit{}, HintOutputEnded{},
		HintOutput{},
		HintNotAllowed{}, HintNoInstall{}, HintNoNetwork{}, HintRefused{}, HintNotReached{}, HintMisplaced{},
		HintNoModule{}, HintNoStandard{},
		HintNoPackage{}, HintLeftOut{},
		HintNoCommands{}, HintMissingFile{}, HintReadOnly{}, HintOutside{}, HintNotebook{},
		HintNoFont{}, HintNotBuilt{}, HintData{}, HintRestart{},
		HintSkipped{}, HintUnmatched{}, HintElsewhere{}, HintLeft{},
		FixSendFile, FixCreate, FixListLiving, FixListRuns, FixListContexts, FixSendKey, FixCheckHost, FixPrune,
		FixText{}, FixParam{}, FixInstall{}, FixRaise{}, FixWaive{},
	} {
		all[h.Code()] = h
	}
	return all
}()

func (n Note) Code() HintCode           { return HintCode(n) }
func (HintExitCode) Code() HintCode     { return "exit_code" }
func (HintSignal) Code() HintCode       { return "signal" }
func (HintTimeout) Code() HintCode      { return "timeout" }
func (HintStuck) Code() HintCode        { return "stuck" }
func (HintWaited) Code() HintCode       { return "waited" }
func (HintRejected) Code() HintCode     { return "rejected" }
func (HintChecks) Code() HintCode       { return "checks" }
func (HintLost) Code() HintCode         { return "lost" }
func (HintNotCompiled) Code() HintCode  { return "not_compiled" }
func (HintNoCommand) Code() HintCode    { return "command_not_found" }
func (HintNoFile) Code() HintCode       { return "program_not_found" }
func (HintNoLoader) Code() HintCode     { return "no_interpreter" }
func (HintNotProgram) Code() HintCode   { return "not_executable" }
func (HintLineEnds) Code() HintCode     { return "line_ends" }
func (HintStateLost) Code() HintCode    { return "state_lost" }
func (HintMemory) Code() HintCode       { return "memory" }
func (HintMemoryKilled) Code() HintCode { return "memory_killed" }
func (HintMemoryEnded) Code() HintCode  { return "memory_ended" }
func (HintChildren) Code() HintCode     { return "children_lost" }
func (HintLimit) Code() HintCode        { return "limit" }
func (HintOutputEnded) Code() HintCode  { return "output_ended" }
func (HintOutput) Code() HintCode       { return "output_dropped" }
func (HintNotAllowed) Code() HintCode   { return "command_not_allowed" }
func (HintNoInstall) Code() HintCode    { return "no_install" }
func (HintNoNetwork) Code() HintCode    { return "no_network" }
func (HintRefused) Code() HintCode      { return "network_refused" }
func (HintMisplaced) Code() HintCode    { return "placeholder_sent" }
func (HintNotReached) Code() HintCode   { return "network_failed" }
func (HintNoModule) Code() HintCode     { return "no_module" }
func (HintNoStandard) Code() HintCode   { return "no_standard_module" }
func (HintNoPackage) Code() HintCode    { return "no_package" }
func (HintLeftOut) Code() HintCode      { return "packages_left_out" }
func (HintNoCommands) Code() HintCode   { return "commands_missing" }
func (HintMissingFile) Code() HintCode  { return "missing_file" }
func (HintReadOnly) Code() HintCode     { return "read_only" }
func (HintOutside) Code() HintCode      { return "outside" }
func (HintNotebook) Code() HintCode     { return "notebook_line" }
func (HintNoFont) Code() HintCode       { return "no_font" }
func (HintNotBuilt) Code() HintCode     { return "not_built" }
func (HintData) Code() HintCode         { return "no_data" }
func (HintRestart) Code() HintCode      { return "restart_context" }
func (HintSkipped) Code() HintCode      { return "skipped" }
func (HintUnmatched) Code() HintCode    { return "unmatched" }
func (HintElsewhere) Code() HintCode    { return "files_elsewhere" }
func (HintLeft) Code() HintCode         { return "left_running" }
