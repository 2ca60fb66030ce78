package plan

import (
	"bytes"
	"path"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/toolcall"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Run is one run with all defaults and names resolved, before anything is sent.
type Run struct {
	Spec     sandbox.Spec      // of the sandbox, with this run's time limit
	Request  sandbox.Request   // complete
	Language *sandbox.Language // nil for a command
	Installs *sandbox.Language // whose packages the run gets: Language, or that of the packages of a command, or nil
	Argv     []string          // with the first of Programs as the interpreter
	Env      []string          // the whole environment of the process
	Dir      string            // working directory
	CodePath string            // path of the code in the sandbox; "" for a command
	CodeName string            // CodePath, where the run is alone in its sandbox
	BuildDir string            // folder of the compile phase, which the engine makes; "" if the code runs as it is
	Globs    Globs             // files to return
}

// Programs returns the interpreters to try in turn; none for a command.
func (p *Run) Programs() []string {
	if p.Language == nil {
		return nil
	}
	return p.Language.Programs
}

// codeAside holds the code if /workspace is a directory of the host, where Fumehood itself writes nothing.
const codeAside = "/tmp"

// Run plans a request in a sandbox of a complete spec. Errors are Invalid and TooLarge, and name the part of the
// request.
func (r *Rules) Run(request sandbox.Request, spec sandbox.Spec) (*Run, error) {
	p := &Run{Spec: spec, Request: request}
	if err := checkRequest(&p.Request); err != nil {
		return nil, err
	}
	if err := r.limit(p); err != nil {
		return nil, err
	}
	var err error
	if p.Dir, err = Dir(p.Request.Dir); err != nil {
		return nil, err
	}
	p.Argv = p.Request.Command
	if len(p.Request.Command) > 0 && p.Request.Dir == "" && spec.Root.WorkDir != "" {
		p.Dir = spec.Root.WorkDir
	}
	if len(p.Request.Command) == 0 {
		err = r.resolveCode(p)
	} else {
		p.Env = r.Env(p.Spec, nil, p.Request.Env)
		if p.Request.Packages.Named() {
			p.Installs, err = r.languageOfPackages(p.Request.Language)
		}
	}
	if err != nil {
		return nil, err
	}
	var inWorkspace string
	if rel, ok := strings.CutPrefix(p.CodePath, sandbox.Workspace+"/"); ok && p.Request.Entry == "" {
		inWorkspace = rel
	}
	if err := checkFiles(p.Request.Files, inWorkspace); err != nil {
		return nil, err
	}
	if err := checkWords(p.Argv, p.Env); err != nil {
		return nil, err
	}
	if p.Globs, err = parseGlobs(p.Request.Return.Globs); err != nil {
		return nil, err
	}
	return p, r.checkCalls(p)
}

// checkCalls checks the tools of the run.
func (r *Rules) checkCalls(p *Run) error {
	if len(p.Request.Calls.Tools) > 0 && p.Request.Code == nil {
		return sandbox.Invalidf("tools", "only code can call tools, not a command or an entry")
	}
	return r.CheckCalls(&p.Request.Calls, p.Language)
}

// CheckCalls checks the tools of a run or a context of code in a language. The clock of a run may stop for as long as
// the operator's maximum of its time limit: meanwhile its other threads go on.
func (r *Rules) CheckCalls(calls *sandbox.Calls, language *sandbox.Language) error {
	tools, err := toolcall.Check(*calls)
	if err != nil {
		return err
	}
	if most, wait := r.Max.Timeout, &calls.Limits.Wait; most != 0 && *wait == 0 {
		*wait = min(sandbox.DefaultCallWait, most)
	} else if most != 0 && *wait > most {
		return sandbox.Invalidf("call_limits.wait_s", "%s is over %s for time limits", *wait,
			r.maximum(sandbox.LimitTimeout))
	}
	if tools != nil && (language.Driver == nil || !language.Driver.Calls) {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "tools", Msg: language.Name + " code cannot call tools",
			Fix: "use python or javascript"}
	}
	return nil
}

// languageOfPackages finds the language of the packages of a command; "" is the first that has packages.
func (r *Rules) languageOfPackages(name string) (*sandbox.Language, error) {
	if name != "" {
		lang, err := r.Languages.Find(name)
		return &lang, err
	}
	for _, lang := range r.Languages.All {
		if lang.Installer != nil && lang.Installer.Install != nil {
			return &lang, nil
		}
	}
	return nil, nil
}

// limit sets the run's own time limit.
func (r *Rules) limit(p *Run) error {
	if p.Request.Timeout == 0 {
		return nil
	}
	own := sandbox.Limits{Timeout: p.Request.Timeout}
	if err := r.checkMax(sandbox.LimitTimeout, int64(own.Timeout), p.Spec.Lifetime); err != nil {
		return err
	}
	if err := own.Check(); err != nil {
		return err
	}
	p.Spec.Limits.Timeout = own.Timeout
	p.Spec.Named = mergeNames(p.Spec.Named, own.Named())
	return nil
}

// resolveCode finds the language, and with it the command line, the environment and the path of the code.
func (r *Rules) resolveCode(p *Run) error {
	req := &p.Request
	lang, err := r.LanguageFor(req)
	if err != nil {
		return err
	}
	if err := r.CheckPids(&lang, p.Spec.Limits); err != nil {
		return err
	}
	p.Language, p.Installs = &lang, &lang
	req.Code = plainText(&lang, req.Code)
	if req.Entry != "" { // no file has an empty path, but nothing has refused one yet
		req.Files = slices.Clone(req.Files)
		for i, f := range req.Files {
			if f.Path == req.Entry {
				req.Files[i].Data = plainText(&lang, f.Data)
			}
		}
	}
	p.Env = r.Env(p.Spec, &lang, lang.Env, req.Env)
	switch {
	case req.Entry != "":
		p.CodePath = sandbox.Workspace + "/" + req.Entry
	case p.Spec.Workspace != "":
		p.CodePath = codeAside + "/" + codeName(&lang, req)
		if lang.ModulePath != "" { // so that the code finds modules in the workspace
			p.Env = AddPath(p.Env, lang.ModulePath, sandbox.Workspace)
		}
	default:
		p.CodePath = sandbox.Workspace + "/" + codeName(&lang, req)
	}
	p.CodeName = p.CodePath
	if lang.Compile != nil {
		p.BuildIn(buildDir)
		return nil
	}
	p.Argv = p.ArgvWith(lang.Programs[0])
	return nil
}

// plainText returns source text without the byte order mark that editors on Windows put before it, and with line feeds
// for a language that does not accept their line ends. Text in which most lines end otherwise stays as it is: a
// carriage return there is meant.
func plainText(lang *sandbox.Language, text []byte) []byte {
	text = bytes.TrimPrefix(text, []byte("\ufeff"))
	if returns := bytes.Count(text, []byte("\r\n")); lang.UnixLines && 2*returns > bytes.Count(text, []byte("\n")) {
		text = bytes.ReplaceAll(text, []byte("\r\n"), []byte("\n"))
	}
	return text
}

// NameCode gives the code's file a name of this run alone, in the same folder, unless the request names it.
// Several runs may share a sandbox, whose files may have the usual name.
func (p *Run) NameCode(id sandbox.ID) (named bool) {
	if p.CodePath == "" || p.Request.Entry != "" || p.Request.FileName != "" {
		return false
	}
	extension := path.Ext(p.CodePath)
	p.CodePath = strings.TrimSuffix(p.CodePath, extension) + "-" + string(id) + extension
	if p.BuildDir == "" {
		p.Argv = p.ArgvWith(p.Programs()[0])
	}
	return true
}

// ArgvWith is the command line with the given interpreter.
func (p *Run) ArgvWith(program string) []string {
	file := p.CodePath
	if p.BuildDir != "" {
		file = p.BuildDir + "/" + p.Language.Compile.Output
	}
	argv := p.Language.Argv
	if p.Language.Cell != nil && len(p.Request.Code) > 0 {
		if cell := p.Language.Cell(p.Request.Code); cell != nil {
			argv = cell
		}
	}
	line := argv(program, file)
	if p.Language.SizedArgs != nil {
		line = slices.Insert(line, 1, p.Language.SizedArgs(p.Spec.Limits)...)
	}
	return append(line[:len(line):len(line)], p.Request.Args...)
}

// LanguageFor returns the language of the request, else that of the code's file name.
func (r *Rules) LanguageFor(req *sandbox.Request) (sandbox.Language, error) {
	if req.Language == "" {
		if lang, ok := r.Languages.ByExtension(path.Base(req.Entry + req.FileName)); ok { // at most one is set
			return lang, nil
		}
	}
	return r.Languages.Find(req.Language)
}

func codeName(lang *sandbox.Language, req *sandbox.Request) string {
	switch {
	case req.FileName != "":
		return req.FileName
	case lang.NameFor != nil:
		return lang.NameFor(req.Code)
	}
	return lang.FileName
}
