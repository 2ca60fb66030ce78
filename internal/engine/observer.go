package engine

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Observer receives what happens in an engine, over every face alike. Observe is called from many goroutines. It must
// return at once and must not call the engine, because a run waits for it. It must not keep or modify Result.
type Observer interface{ Observe(Observation) }

// ObservationKind is the kind of an observation.
type ObservationKind string

// The kinds of observations.
const (
	RunStarted     ObservationKind = "run_started"     // the sandbox exists; files go in next
	RunForked      ObservationKind = "run_forked"      // it runs in a fork of a zygote
	RunParked      ObservationKind = "run_parked"      // it runs in an interpreter that waited in its sandbox
	RunEnded       ObservationKind = "run_ended"       // it has a Result, also if nothing ran
	RunRefused     ObservationKind = "run_refused"     // it has no result: Err says why
	SandboxCreated ObservationKind = "sandbox_created" // a living one
	SandboxResumed ObservationKind = "sandbox_resumed" // taken over from an earlier server
	SandboxUpdated ObservationKind = "sandbox_updated" // its metadata, lifetime or network policy
	SandboxEnded   ObservationKind = "sandbox_ended"   // Reason says why
	PanicContained ObservationKind = "panic_contained" // a defect; Err says where
)

// Observation is one thing that happened in an engine. Fields that the kind does not mention may be empty.
type Observation struct {
	Kind ObservationKind
	Time time.Time

	Owner   string
	Sandbox sandbox.ID
	Name    string // of a living sandbox
	Backend string
	// of SandboxCreated, SandboxResumed and SandboxUpdated. Secrets hide their values when printed
	Spec *sandbox.Spec

	Run      sandbox.ID
	Language string // of the engine's list; "" for a command
	Result   *sandbox.Result
	Err      error
	Reason   string

	request *sandbox.Request
}

// Digest returns the SHA-256 of the code or the command of a run, in hexadecimal. It is "" for other kinds.
func (o *Observation) Digest() string {
	if o.request == nil {
		return ""
	}
	hash := sha256.New()
	hash.Write(o.request.Code)
	_, _ = io.WriteString(hash, o.request.Entry) // a hash does not fail
	for _, word := range o.request.Command {
		_, _ = io.WriteString(hash, word+"\x00")
	}
	return hex.EncodeToString(hash.Sum(nil))
}

// observe counts an observation and passes it to the observer.
func (e *Engine) observe(o Observation) {
	o.Time = time.Now()
	e.counts.observe(&o)
	if e.config.Observer != nil {
		e.config.Observer.Observe(o)
	}
}

// observation describes the sandbox.
func (s *Sandbox) observation(kind ObservationKind) Observation {
	o := Observation{Kind: kind, Owner: s.owner, Sandbox: s.id, Name: s.name}
	if s.backend != nil { // nil: on record, and unknown to this server
		o.Backend = s.backend.Name()
	}
	return o
}

// observeSpec reports a change of the sandbox, with its spec.
func (s *Sandbox) observeSpec(kind ObservationKind) {
	o, spec := s.observation(kind), s.spec()
	o.Spec = &spec
	s.engine.observe(o)
}

// notify reports a run in a sandbox.
func (x *Run) notify(kind ObservationKind, result *sandbox.Result, err error) {
	o := x.sandbox.observation(kind)
	o.Run, o.Language, o.request, o.Result, o.Err = x.id, x.languageName(), &x.Request, result, err
	x.sandbox.engine.observe(o)
}

// languageName returns the language of a run, or "" for a command.
func (j *job) languageName() string {
	if j.Run == nil || j.Language == nil {
		return ""
	}
	return j.Language.Name
}
