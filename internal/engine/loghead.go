package engine

import (
	"cmp"
	"encoding/json"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// logHead is the head of a run's log, from which the next server continues the run. Code, files and stdin were sent
// already.
type logHead struct {
	Context     string        `json:"context,omitempty"`
	Language    string        `json:"language,omitempty"`
	Entry       string        `json:"entry,omitempty"`
	Command     []string      `json:"command,omitempty"`
	Timeout     time.Duration `json:"timeout"`
	Output      int64         `json:"output,omitempty"` // limit in bytes; 0 in logs of earlier versions
	Interactive bool          `json:"interactive,omitempty"`
	Terminal    bool          `json:"terminal,omitempty"`
	Background  bool          `json:"background,omitempty"`
	Began       time.Time     `json:"began"`
	Base        guest.Attach  `json:"base"`
	Packages    bool          `json:"packages,omitempty"` // it waits for some before it begins

	Metadata map[string]string `json:"metadata,omitempty"`
}

// head describes the run.
func (x *Run) head() ([]byte, error) {
	h := logHead{Entry: x.Request.Entry, Command: x.Request.Command, Timeout: x.Spec.Limits.Timeout,
		Output: x.Spec.Limits.OutputBytes, Interactive: x.req.Interactive, Terminal: x.req.Terminal != nil,
		Background: x.req.Background, Began: x.began, Base: x.base, Packages: x.adding.asked != nil,
		Metadata: x.req.Request.Metadata}
	if x.context != nil {
		h.Context = x.context.name
	}
	if x.Language != nil {
		h.Language = x.Language.Name
	}
	return json.Marshal(h)
}

// request rebuilds the parts of the run's request that matter after its start.
func (h *logHead) request() sandbox.Request {
	r := sandbox.Request{Entry: h.Entry, Command: h.Command, Timeout: h.Timeout, Language: h.Language,
		Metadata: h.Metadata}
	if h.Entry == "" && len(h.Command) == 0 {
		r.Code = []byte("pass")
	}
	return r
}

// limit sets the limits with which the run was accepted. Those of its sandbox may have changed since, for later runs.
func (h *logHead) limit(l *sandbox.Limits) {
	l.Timeout, l.OutputBytes = h.Timeout, cmp.Or(h.Output, l.OutputBytes)
}
