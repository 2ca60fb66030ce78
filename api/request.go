package api

import "github.com/fumehood-dev/fumehood/sandbox"

// Program is the part of a request that is run: code, a command, or a file of the workspace.
type Program struct {
	// Name or alias of a language; GET /v1/languages lists them. The default of code is the language of its context,
	// else python. With a command, it is the language of the packages.
	Language string `json:"language,omitempty" example:"python"`
	// Source text to run. Give exactly one of code and command, or in a living sandbox entry.
	Code *string `json:"code,omitempty" pattern:"\\S" one:"program" example:"print(6*7)"`
	// A program and its arguments, run without a shell.
	Command []string `json:"command,omitempty" max:"4096" one:"program"`
	// Arguments of the code or the entry. Code in a context takes none.
	Args []string `json:"args,omitempty" max:"4096"`
	// Standard input of the program, as text. Code in a context takes none.
	Stdin string `json:"stdin,omitempty" nul:"ok"`
	// Standard input as base64, for bytes that are not text. Give at most one of stdin and stdin_base64.
	StdinBase64 []byte `json:"stdin_base64,omitempty"`
	Files       []File `json:"files,omitempty" max:"10000"` // Files to write to /workspace before the start.
	// Environment variables. Nothing is inherited from the server. In a living sandbox they are added to those of the
	// sandbox. Code in a context has them until its run ends, at most 30.
	Env map[string]string `json:"env,omitempty" max:"1024"`
	// Patterns of files below /workspace that are returned if the run created or changed them; ** matches any depth.
	// In a living sandbox they are not supported with background or a stream.
	ReturnFiles []string `json:"return_files,omitempty" max:"64" example:"**/*.png"`
	// Packages of the language to install before the run: auto for those that the code imports and the sandbox lacks,
	// or names with versions. The run itself needs no network for them. In a living sandbox they stay installed. A
	// command gets those of language, by default python. auto has no effect on a command, or in a language without
	// packages.
	Packages []string `json:"packages,omitempty" max:"500" example:"auto"`
	// Allow packages to run their own code while they are installed: source distributions, install scripts.
	AllowBuild bool `json:"allow_build,omitempty"`
	// Your own strings, such as user, agent or run. The server writes them to its log.
	Metadata map[string]string `json:"metadata,omitempty" max:"64"`
	// Whether checks of the source text report findings in the answer (warn), or reject the code before it runs
	// (enforce). The default is the server's; a weaker mode has no effect. Checks are advice, not isolation.
	Checks sandbox.CheckMode `json:"checks,omitempty"`
	// Optional sections of the answer to return even if empty.
	Include []Section `json:"include,omitempty" max:"16"`
	// Functions of the client that the code can call, in Python and JavaScript. Requires Accept: text/event-stream, or
	// background.
	Tools      []Tool      `json:"tools,omitempty" max:"64"`
	CallLimits *CallLimits `json:"call_limits,omitempty"` // Limits of the calls of tools.
}

// Isolation is the part of a request about the isolation of a new sandbox: its backend, limits and network.
type Isolation struct {
	// The backend: a name of GET /v1/capabilities, or auto for the strongest on this host. The default is the server's.
	Backend string `json:"backend,omitempty" example:"native"`
	// On docker and podman, the image of the root file system. It must exist on the server, which fetches none.
	Image   string  `json:"image,omitempty" example:"python:3.12-slim"`
	Limits  Limits  `json:"limits,omitzero"`  // A limit that is named here is enforced, or the request is refused.
	Network Network `json:"network,omitzero"` // The network policy. The default is no network.
	// Storage that the sandbox shows besides its own.
	Volumes []VolumeMount `json:"volumes,omitempty" max:"16"`
	// Names of limits, or commands, that need not be enforced where this host cannot do it.
	AllowUnenforced []string `json:"allow_unenforced,omitempty" max:"64"`
}

// RunRequest is the body of POST /v1/run.
type RunRequest struct {
	Program
	Isolation
	// Install exactly these packages, as fumehood deps lock prints them, instead of packages.
	Lock string `json:"lock,omitempty"`
}

// SandboxRunRequest is the body of POST /v1/sandboxes/{id}/run.
type SandboxRunRequest struct {
	Program
	// A file of the workspace to run as a program of its language.
	Entry *string `json:"entry,omitempty" pattern:"." one:"program" example:"main.py"`
	// Name or id of a context, for code. The default is the language's context named default, which its first run
	// creates.
	Context string    `json:"context,omitempty" example:"default"`
	Dir     string    `json:"dir,omitempty"`   // Working directory of a command or an entry. The default is /workspace.
	Limits  RunLimits `json:"limits,omitzero"` // All other limits are the sandbox's.
	// Answer at once with the id of the run, whose events can be read any number of times. It ends with its sandbox,
	// or at limits.timeout_s if given.
	Background bool `json:"background,omitempty"`
	// Keep stdin of a command or an entry open for POST .../stdin. Requires background or Accept: text/event-stream.
	Interactive bool `json:"interactive,omitempty"`
	// Give a command a terminal of this size. POST .../stdin types into it, and stdout is what it shows. Requires
	// background or Accept: text/event-stream.
	Terminal *TerminalSize `json:"terminal,omitempty"`
}

// TerminalSize is the size of a terminal, the body of POST /v1/sandboxes/{id}/runs/{run}/terminal, and a text message
// of the client of GET /v1/sandboxes/{id}/terminal.
type TerminalSize struct {
	Rows    int `json:"rows" required:"true" least:"1" example:"24"`    // At most 10,000.
	Columns int `json:"columns" required:"true" least:"1" example:"80"` // At most 10,000.
}

// RunLimits are the limits of one run in a living sandbox.
type RunLimits struct {
	// Wall time in seconds; 0 is no limit. The default is that of the sandbox, and no limit with background.
	TimeoutS *float64 `json:"timeout_s,omitempty" least:"0" example:"30"`
}

// ExecuteRequest is the body of POST /execute, a small schema for clients of older servers.
type ExecuteRequest struct {
	Code *string `json:"code" required:"true" pattern:"\\S" example:"print(6*7)"` // Source text to run.
	// Name or alias of a language. The default is python.
	Language string `json:"language,omitempty" example:"python"`
}

// ExecuteAnswer is the answer to POST /execute.
type ExecuteAnswer struct {
	Success bool `json:"success"` // Whether the program exited with code 0.
	// Stdout of the program, then its stderr. A last line in brackets reports other facts, such as files that were not
	// returned.
	Output string            `json:"output"`
	Error  *string           `json:"error"` // The uncaught exception or other failure; null after a success.
	Files  map[string][]byte `json:"files"` // New and changed files, as base64 by path.
}

// SignalRequest is the body of POST /v1/sandboxes/{id}/runs/{run}/signal.
type SignalRequest struct {
	// Name or Linux number of the signal. Code in a context takes only SIGINT.
	Signal string `json:"signal" required:"true" number:"ok" example:"SIGINT"`
}
