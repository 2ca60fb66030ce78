package sandbox

// CheckMode is the effect of the checks of source text before a run. They are advice: code can hide anything from them,
// and no isolation depends on them.
type CheckMode string

// The modes, weakest first.
const (
	ChecksOff     CheckMode = "off"
	ChecksWarn    CheckMode = "warn"    // findings are part of the result
	ChecksEnforce CheckMode = "enforce" // code with a finding that refuses is rejected; nothing runs
)

// CheckModes lists the modes, weakest first.
var CheckModes = []CheckMode{ChecksOff, ChecksWarn, ChecksEnforce}

// Finding is one result of a check of source text.
type Finding struct {
	Rule    string `json:"rule"`
	File    string `json:"file,omitempty"` // "" is the code itself
	Line    int    `json:"line"`           // from 1
	Column  int    `json:"column"`         // from 1, in bytes
	Message string `json:"message"`        // what is there: "dangerous call 'os.system'"
	Advice  string `json:"advice"`
	Refuses bool   `json:"refuses"` // ChecksEnforce rejects the code for it
}
