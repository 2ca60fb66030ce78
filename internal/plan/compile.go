package plan

import (
	"cmp"
	"slices"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// buildDir is hidden, as caches are: what lies in it is not among the files that a caller may miss.
const buildDir = "/tmp/.fumehood-build"

// BuildIn sets the folder of the compile phase, and with it the command line.
func (p *Run) BuildIn(dir string) {
	p.BuildDir = dir
	p.Argv = p.ArgvWith(append(slices.Clone(p.Programs()), "")[0])
}

// Compilation returns the compile phase of the run as a run, without input.
func (p *Run) Compilation(most sandbox.Limits) *Run {
	compile := *p.Language.Compile
	compiler := *p.Language
	compiler.ParseError, compiler.Programs, compiler.Compile = nil, compile.Programs, nil
	if compile.Tool != "" {
		compiler.Programs = []string{p.ToolPath()}
	}
	output := p.BuildDir + "/" + compile.Output
	compiler.Argv = func(program, path string) []string { return compile.Argv(program, path, output) }
	c := *p
	c.Language, c.BuildDir = &compiler, ""
	c.Request.Stdin, c.Request.Args, c.Request.Files, c.Request.Return, c.Globs = nil, nil, nil, sandbox.Return{}, nil
	limit := cmp.Or(compile.Limits.Timeout, sandbox.CompileTimeout)
	c.Spec.Limits.Timeout = max(c.Spec.Limits.Timeout, min(limit, cmp.Or(most.Timeout, limit)))
	c.Argv = c.ArgvWith(c.Programs()[0])
	return &c
}

// ToolPath is the path of the tool that compiles.
func (p *Run) ToolPath() string { return p.BuildDir + "/" + p.Language.Compile.Tool }
