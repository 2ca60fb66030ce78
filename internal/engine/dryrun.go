package engine

import (
	"context"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Plan is a run with all defaults and names resolved, before anything is made.
type Plan struct {
	Backend  string
	Spec     sandbox.Spec // complete except ID
	Language string       // "" for a command
	Argv     []string     // with the first of Programs as the interpreter
	Programs []string     // interpreters to try in turn; none for a command
	Env      []string     // the whole environment of the process
	Dir      string       // working directory
	CodePath string       // path of the code in the sandbox; "" for a command

	Unenforced []sandbox.LimitName // not enforced on this host
	Refusal    error               // why the backend would refuse Spec; nil if it would not, or cannot tell
}

// Plan checks a request as Run does and returns what Run would do, or the backend's refusal. It makes no sandbox.
func (e *Engine) Plan(ctx context.Context, run OneShot) (*Plan, error) {
	o, err := e.resolve(run)
	if err != nil {
		return nil, err
	}
	refusal := e.choose(ctx, o, false)
	none := sandbox.KindOf(refusal) == sandbox.Unsupported && o.asked == Auto
	if refusal != nil && !none {
		return nil, refusal
	}
	p := &Plan{Spec: o.Spec, Argv: o.Argv, Programs: o.Programs(), Env: o.Env, Dir: o.Dir, CodePath: o.CodePath}
	if o.Language != nil {
		p.Language = o.Language.Name
	}
	if none { // a plan is for who has no backend as well
		p.Backend, p.Refusal = Auto, refusal
		return p, nil
	}
	p.Backend = o.backend.Name()
	if b, ok := o.backend.(sandbox.Preflighter); ok {
		p.Unenforced, p.Refusal = b.Preflight(p.Spec)
	}
	p.Spec.Root = rootOf(o.backend, p.Spec)
	return p, nil
}
