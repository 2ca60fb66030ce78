package engine

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"

	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The request of a background run is kept beside its log until the run has ended. The next server starts a run that
// had not started when its server was killed, and sends the rest of its code or stdin to one that had. The request of
// other code in a context is kept while the code is sent in several pieces: half of it would spoil the context.

func (s *Sandbox) requestFile(id sandbox.ID) string {
	return filepath.Join(s.logs.Dir(), string(id)+".request")
}

// saveRequest keeps the request. It needs no sync of the disk: the sandbox does not survive the machine either.
func (x *Run) saveRequest() error {
	x.kept = true
	req := x.req
	// with the operator's bound of a wait that the request does not name
	req.Request.Calls.Limits = x.Request.Calls.Limits
	if !req.Background { // of which only what its driver gets is needed
		req.Request.Files = nil
	}
	file, err := os.OpenFile(x.sandbox.requestFile(x.id), os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err == nil {
		err = errors.Join(writeRequest(file, req), file.Close())
	}
	if err != nil {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: "keep the request of a run", Err: err,
			Fix: "free space in the state folder of Fumehood"}
	}
	return nil
}

// writeRequest writes a request as JSON, without a copy of its large parts.
func writeRequest(to io.Writer, r RunRequest) error {
	l := largejson.NewLayout()
	l.Bytes(&r.Request.Code)
	l.Bytes(&r.Request.Stdin)
	r.Request.Files = slices.Clone(r.Request.Files)
	for i := range r.Request.Files {
		l.Bytes(&r.Request.Files[i].Data)
	}
	return l.Around(&r).EncodeTo(to)
}

// dropRequest removes the request.
func (x *Run) dropRequest() {
	if x.kept {
		_ = os.Remove(x.sandbox.requestFile(x.id)) // its folder is removed with the sandbox
	}
}

// loadRequest completes a request by what saveRequest kept, and reports whether it could.
func (s *Sandbox) loadRequest(r *RunRequest) bool {
	text, err := os.ReadFile(s.requestFile(r.ID))
	if err != nil {
		return false
	}
	saved := RunRequest{}
	if json.Unmarshal(text, &saved) != nil { // its server was killed before it answered
		return false
	}
	saved.ID = r.ID
	*r = saved
	return true
}

// awaits finds out which part of the request of code the interpreter lacks, by the bytes that it got. begun reports
// whether the code runs or is about to. Otherwise none of it was sent, and nobody can or wants to: whole is false if a
// part was.
func (x *Run) awaits(sent uint64) (begun, whole bool) {
	r := x.resumed
	missing := r.began.Request + r.began.Size - min(sent, r.began.Request+r.began.Size)
	switch {
	case missing == 0:
		return true, true
	case r.saved && (x.req.Background || missing < r.began.Size):
		r.rest = x.forDriver()
		r.rest = r.rest[len(r.rest)-min(len(r.rest), int(missing)):]
		return true, true
	}
	whole = missing == r.began.Size
	r.began = nil
	return false, whole
}
