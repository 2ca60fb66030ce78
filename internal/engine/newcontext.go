package engine

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strconv"

	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/internal/toolcall"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// unnamed is the start of the names of contexts that are created without one.
const unnamed = "context-"

// maxContextTools bounds the tools of all contexts of a sandbox, in bytes: its record has them.
const maxContextTools = 512 << 10

// ContextRequest describes a new context. The zero value is one of the first language of the engine, in the workspace.
type ContextRequest struct {
	Name     string        // "" is a new name
	Language string        // name or alias
	Dir      string        // working directory
	Env      []string      // variables besides those of the sandbox
	Calls    sandbox.Calls // tools of its runs; functions are lost with the server, and its own Call is not used
}

// CreateContext makes a context and starts its interpreter.
func (s *Sandbox) CreateContext(ctx context.Context, req ContextRequest) (*Context, error) {
	if err := s.Ended(); err != nil {
		return nil, err
	}
	var language sandbox.Language
	err := s.engine.planInTurn(ctx, s.owner, req.Calls.Tools, func() (err error) {
		language, err = s.checkContext(&req)
		return err
	})
	if err != nil {
		return nil, err
	}
	c, err := s.enterContext(req, language)
	if err != nil {
		return nil, err
	}
	if err := c.Restart(ctx); err != nil {
		if c.Delete(ctx) != nil { // it never ran
			c.leave()
		}
		return nil, err
	}
	return c, nil
}

// checkContext checks and completes a request.
func (s *Sandbox) checkContext(req *ContextRequest) (language sandbox.Language, err error) {
	if req.Name != "" {
		if err = checkName(req.Name); err != nil {
			return language, err
		}
	}
	if err = plan.CheckEnv("env", plan.MergeEnv(s.spec().Env, req.Env)); err != nil {
		return language, err
	}
	if req.Language == "" {
		req.Language = s.engine.config.Languages[0].Name
	}
	if language, err = s.engine.Language(req.Language); err != nil {
		return language, err
	}
	if req.Dir, err = plan.Dir(req.Dir); err != nil {
		return language, err
	}
	rules := s.engine.rulesOf(s.owner)
	return language, rules.CheckCalls(&req.Calls, &language)
}

// enterContext adds a context, unless its name is taken.
func (s *Sandbox) enterContext(req ContextRequest, language sandbox.Language) (*Context, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := req.Name
	taken := func(c *Context) bool { return c.name == name }
	if name == "" {
		for n := 1; name == "" || slices.ContainsFunc(s.contexts, taken); n++ {
			name = unnamed + strconv.Itoa(n)
		}
	}
	if slices.ContainsFunc(s.contexts, taken) {
		return nil, &sandbox.Error{Kind: sandbox.Exists, Op: "context " + name, Msg: "this name is taken",
			Fix: "use that context, or delete it first"}
	}
	if err := s.checkRoom(req.Calls); err != nil {
		return nil, err
	}
	c, err := s.addContext(name, language, req.Dir)
	if err != nil {
		return nil, err
	}
	c.env, c.tools = req.Env, sandbox.Calls{Tools: req.Calls.Tools, Limits: req.Calls.Limits}
	return c, nil
}

// addContext adds a context. The caller holds mu.
func (s *Sandbox) addContext(name string, language sandbox.Language, dir string) (*Context, error) {
	if language.Driver == nil {
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "context", Msg: language.Name + " has no contexts",
			Fix: "leave the context out: each run of its code then has its own process"}
	}
	rules := s.engine.rulesOf(s.owner)
	if err := rules.CheckPids(&language, s.record.Spec.Limits); err != nil {
		return nil, err
	}
	if len(s.contexts) >= maxContexts {
		return nil, &sandbox.Error{Kind: sandbox.Quota, Op: "context",
			Msg: fmt.Sprintf("this sandbox has %d contexts, the most that are allowed", maxContexts),
			Fix: "delete one that is no longer needed"}
	}
	c := s.newContext(name, language, dir)
	s.contexts = append(s.contexts, c)
	return c, nil
}

// checkRoom checks that the record has room for the tools of another context. The caller holds mu.
func (s *Sandbox) checkRoom(calls sandbox.Calls) error {
	size := toolcall.Size(calls.Tools)
	for _, c := range s.contexts {
		size += toolcall.Size(c.tools.Tools)
	}
	if size <= maxContextTools {
		return nil
	}
	return &sandbox.Error{Kind: sandbox.Quota, Op: "tools",
		Msg: "the tools of the contexts of a sandbox are over the limit of " + sandbox.FormatBytes(maxContextTools),
		Fix: "delete a context, or name tools in each run"}
}

// callable completes the tools of a run in a context: with those of the context, if its caller can read its events.
// Tools of the run replace those of the same name. Code without tools that calls one gets an error.
func (x *Run) callable() error {
	if !x.Language.Driver.Calls {
		return nil
	}
	given := x.context.tools
	if (x.req.Background || hasFunctions(given.Tools)) && len(given.Tools) > 0 {
		own := &x.req.Request.Calls
		if own.Limits == (sandbox.CallLimits{}) {
			own.Limits = given.Limits
		}
		own.Limits.Wait = cmp.Or(own.Limits.Wait, x.Request.Calls.Limits.Wait)
		own.Tools = merge(own.Tools, given.Tools)
		x.Request.Calls = *own
		set, err := toolcall.Known(*own) // both parts were checked, which costs up to half a second
		if err != nil {
			return err
		}
		x.calls = callsOf(set)
	}
	if x.calls == nil {
		x.calls = noTools()
	}
	return nil
}

// hasFunctions reports whether all tools have a function, so that nobody must follow a run to answer.
func hasFunctions(tools []sandbox.Tool) bool {
	return !slices.ContainsFunc(tools, func(t sandbox.Tool) bool { return t.Call == nil })
}

// withoutFunctions returns calls as a record has them.
func withoutFunctions(calls sandbox.Calls) sandbox.Calls {
	calls.Tools = slices.Clone(calls.Tools)
	for i := range calls.Tools {
		calls.Tools[i].Call = nil
	}
	return calls
}

// merge returns tools, and more of other names.
func merge(tools, more []sandbox.Tool) []sandbox.Tool {
	all := slices.Clone(tools)
	for _, t := range more {
		if !slices.ContainsFunc(tools, func(own sandbox.Tool) bool { return own.Name == t.Name }) {
			all = append(all, t)
		}
	}
	return all
}
