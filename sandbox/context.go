package sandbox

import "time"

// Driver says how to keep an interpreter of a language alive between runs. Package driver documents what its program
// must do.
type Driver struct {
	// Argv is the command line that starts the driver, its source text included.
	Argv func(program string) []string

	// Env is added to the environment of the context.
	Env []string

	Calls bool // code can call tools
	State bool // variables can be exported and imported
}

// Value is a result of a run: a value that its code displayed, in the richest form first.
type Value struct {
	Main  bool // the value of the last expression; otherwise it was displayed
	Forms []Form
}

// Form is one form of a value.
type Form struct {
	// media type: text/plain, text/html, text/markdown, text/latex, image/svg+xml, image/png, image/jpeg,
	// application/json, or application/vnd.NAME+json of a library
	Type string
	Data []byte // of a text: UTF-8
}

// MediaChart is the media type of the data of a chart, in the form of E2B's charts: type, title, labels and elements.
const MediaChart = "application/vnd.fumehood.chart+json"

// DefaultContext is the name of the context that code runs in if none is named.
const DefaultContext = "default"

// Record is what must outlive the server about one living sandbox. Whatever else is known of it is read from its
// backend.
type Record struct {
	ID       ID
	Name     string // unique among the living of one owner; "" is none
	Owner    string
	Backend  string
	Spec     Spec
	Created  time.Time
	Contexts []ContextRecord
	Packages map[string]Added // by the name of their Installer
	Resized  Limits           // that were changed since its creation

	Ended  time.Time // zero while it lives
	Reason string    // why it ended, in one sentence
}

// ContextRecord is what must outlive the server about one context.
type ContextRecord struct {
	ID       ID // of the interpreter's process in the guest
	Name     string
	Language string
	Dir      string
	Env      []string // besides that of the sandbox
	Tools    Calls    // of its runs, besides their own
	Created  time.Time
	Runs     uint64 // runs begun
	Former   []ID   // of the last interpreters before it
}
