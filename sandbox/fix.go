package sandbox

// Fixes of errors without facts.
const (
	FixSendFile     Note = "send_file"      // send the file along
	FixCreate       Note = "create_sandbox" // create the sandbox
	FixListLiving   Note = "list_sandboxes" // list the living sandboxes
	FixListRuns     Note = "list_runs"      // list the runs of the sandbox
	FixListContexts Note = "list_contexts"  // list the contexts of the sandbox
	FixSendKey      Note = "send_key"       // send an API key
	FixCheckHost    Note = "check_host"     // see what the host can enforce
	FixPrune        Note = "prune_packages" // remove packages from the cache
)

// The fixes of errors with facts.
type (
	// FixText is a sentence that is true for every face.
	FixText struct {
		Text string `json:"text"`
	}
	// FixParam sets a parameter of the request or of the server, to one of Values.
	FixParam struct {
		Param   string   `json:"param"`
		Values  []string `json:"values,omitempty"`
		Purpose string   `json:"purpose"` // as an imperative: "choose another backend"
	}
	// FixInstall installs a program where the root file system comes from.
	FixInstall struct {
		Command string `json:"command"` // as root, on Debian: "apt install ruby"
	}
	// FixRaise raises a limit; its Value is unknown.
	FixRaise struct{ Bound }
	// FixWaive runs without limits that the host cannot enforce.
	FixWaive struct {
		Limits []LimitName `json:"limits"`
	}
)

func (FixText) Code() HintCode    { return "fix" }
func (FixParam) Code() HintCode   { return "set_param" }
func (FixInstall) Code() HintCode { return "install" }
func (FixRaise) Code() HintCode   { return "raise_limit" }
func (FixWaive) Code() HintCode   { return "waive_limits" }

// ChooseBackend is the fix to choose another backend.
func ChooseBackend(names ...string) FixParam {
	return FixParam{Param: "backend", Values: names, Purpose: "choose another backend"}
}

// ChooseImage is the fix to choose another image.
func ChooseImage(name string) FixParam {
	return FixParam{Param: "image", Values: []string{name}, Purpose: "choose another image"}
}

// ChooseRoot is the fix to choose another directory as root file system.
func ChooseRoot() FixParam {
	return FixParam{Param: "root", Values: []string{"DIR"}, Purpose: "choose a directory that has it"}
}
