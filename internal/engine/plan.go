package engine

import (
	"bytes"
	"cmp"
	"context"
	"fmt"
	"path"
	"strings"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/sandbox"
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

	Unenforced []sandbox.LimitName // not enforced on this host; only Engine.Plan sets it and Refusal
	Refusal    error               // why the backend would refuse Spec; nil if it would not, or cannot tell
}

// Plan checks a request as Run does and returns what Run would do, or the backend's refusal. It makes no sandbox.
func (e *Engine) Plan(ctx context.Context, run Run) (*Plan, error) {
	p, err := e.resolve(run)
	if err != nil {
		return nil, err
	}
	if err := e.choose(ctx, p); sandbox.KindOf(err) == sandbox.Unsupported && p.asked == Auto {
		p.Backend, p.Refusal = Auto, err
		return &p.Plan, nil
	} else if err != nil {
		return nil, err
	}
	if b, ok := p.backend.(sandbox.Preflighter); ok {
		p.Unenforced, p.Refusal = b.Preflight(p.Spec)
	}
	if b, ok := p.backend.(sandbox.Rooted); ok && p.Spec.Root == (sandbox.Root{}) {
		p.Spec.Root = b.Root(p.Spec)
	}
	return &p.Plan, nil
}

// plan is a Plan with what Run needs.
type plan struct {
	Plan
	id       sandbox.ID // of the execution
	owner    string
	asked    string // the requested name of the backend
	backend  sandbox.Backend
	language *sandbox.Language // nil for a command
	request  sandbox.Request
	globs    []glob
	plain    bool // start an interpreter instead of forking a zygote
	deliver  func(*sandbox.Result) error
}

// codeAside holds the code if /workspace is a directory of the host, where Glovebox itself writes nothing.
const codeAside = "/tmp"

// resolve checks a run and resolves all but its backend.
func (e *Engine) resolve(run Run) (*plan, error) {
	p := &plan{id: run.ID, owner: run.Owner, request: run.Request, deliver: run.Deliver}
	if p.id == "" {
		p.id = sandbox.NewID()
	}
	if _, err := sandbox.ParseID(string(p.id)); err != nil {
		return nil, err
	}
	if err := checkRequest(&p.request); err != nil {
		return nil, err
	}
	var err error
	if p.Spec, err = e.fillSpec(run); err != nil {
		return nil, err
	}
	if p.Dir, err = resolveDir(p.request.Dir); err != nil {
		return nil, err
	}
	p.Env = mergeEnv(p.Spec.Env, p.request.Env)
	p.Argv = p.request.Command
	if len(p.request.Command) == 0 {
		if err := e.resolveCode(p); err != nil {
			return nil, err
		}
	}
	var inWorkspace string
	if rel, ok := strings.CutPrefix(p.CodePath, sandbox.Workspace+"/"); ok && p.request.Entry == "" {
		inWorkspace = rel
	}
	if err := checkFiles(p.request.Files, inWorkspace); err != nil {
		return nil, err
	}
	if err := checkWords(p.Argv, p.Env); err != nil {
		return nil, err
	}
	if p.globs, err = parseGlobs(p.request.Return.Globs); err != nil {
		return nil, err
	}
	p.asked = cmp.Or(run.Backend, e.defaultName())
	return p, nil
}

// choose finds the backend of a plan.
func (e *Engine) choose(ctx context.Context, p *plan) (err error) {
	if p.backend, err = e.backend(ctx, p.asked, p.Spec.AllowUnenforced); err == nil {
		p.Backend = p.backend.Name()
	}
	return err
}

// resolveCode finds the language, and with it the command line, the environment and the path of the code.
func (e *Engine) resolveCode(p *plan) error {
	req := &p.request
	lang, err := e.languageFor(req)
	if err != nil {
		return err
	}
	p.language, p.Language, p.Programs = &lang, lang.Name, lang.Programs
	p.Env = mergeEnv(p.Spec.Env, lang.Env, req.Env)
	switch {
	case req.Entry != "":
		p.CodePath = sandbox.Workspace + "/" + req.Entry
	case p.Spec.Workspace != "":
		p.CodePath = codeAside + "/" + codeName(&lang, req)
		if lang.ModulePath != "" { // so that the code finds modules in the workspace
			p.Env = addPath(p.Env, lang.ModulePath, sandbox.Workspace)
		}
	default:
		p.CodePath = sandbox.Workspace + "/" + codeName(&lang, req)
	}
	p.Argv = p.argv(lang.Programs[0])
	return nil
}

// argv is the command line with the given interpreter.
func (p *plan) argv(program string) []string {
	line := p.language.Argv(program, p.CodePath)
	return append(line[:len(line):len(line)], p.request.Args...)
}

// languageFor returns the language of the request, else that of the code's file name.
func (e *Engine) languageFor(req *sandbox.Request) (sandbox.Language, error) {
	if req.Language == "" {
		if lang, ok := e.LanguageOf(path.Base(req.Entry + req.FileName)); ok { // at most one is set
			return lang, nil
		}
	}
	return e.Language(req.Language)
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

// checkRequest checks what does not depend on languages and backends.
func checkRequest(req *sandbox.Request) error {
	if err := checkSource(req); err != nil {
		return err
	}
	if req.Timeout < 0 {
		return sandbox.Invalidf("limits.timeout", "must be positive")
	}
	if len(req.Stdin) > MaxStdin {
		return tooLarge("stdin", len(req.Stdin), MaxStdin)
	}
	for i, word := range append(req.Command[:len(req.Command):len(req.Command)], req.Args...) {
		if strings.IndexByte(word, 0) >= 0 {
			return sandbox.Invalidf("command", "word %d holds a NUL byte", i)
		}
		if len(word) > MaxWord {
			return tooLarge(fmt.Sprintf("command: word %d", i), len(word), MaxWord)
		}
	}
	if err := checkEnv("env", req.Env); err != nil {
		return err
	}
	if err := checkReturn(&req.Return); err != nil {
		return err
	}
	if len(req.Metadata) > MaxMetadata {
		return sandbox.Invalidf("metadata", "has more than %d entries", MaxMetadata)
	}
	for k, v := range req.Metadata {
		if len(k) > MaxMetadatum || len(v) > MaxMetadatum {
			return sandbox.Invalidf("metadata", "%.40q or its value is longer than %d bytes", k, MaxMetadatum)
		}
	}
	return nil
}

// checkSource checks that there is exactly one thing to run, and that it is valid.
func checkSource(req *sandbox.Request) error {
	var given []string
	if req.Code != nil {
		given = append(given, "code")
	}
	if req.Entry != "" {
		given = append(given, "entry")
	}
	if len(req.Command) > 0 {
		given = append(given, "command")
	}
	switch {
	case len(given) == 0:
		return sandbox.Invalidf("code", "is missing; give code or a command")
	case len(given) > 1:
		return sandbox.Invalidf(given[0], "cannot be given together with %s", given[1])
	case req.Code != nil:
		return checkCode(req)
	case req.FileName != "":
		return sandbox.Invalidf("file name", "goes with code")
	case req.Entry != "":
		return checkPath("entry", req.Entry)
	case req.Command[0] == "":
		return sandbox.Invalidf("command", "the first word is empty")
	case req.Language != "":
		return sandbox.Invalidf("language", "goes with code, not with a command")
	case len(req.Args) > 0:
		return sandbox.Invalidf("args", "go with code; append them to the command")
	}
	return nil
}

func checkCode(req *sandbox.Request) error {
	switch {
	case len(bytes.TrimSpace(req.Code)) == 0:
		return sandbox.Invalidf("code", "is empty")
	case len(req.Code) > MaxCode:
		return tooLarge("code", len(req.Code), MaxCode)
	}
	if at := bytes.IndexByte(req.Code, 0); at >= 0 {
		return sandbox.Invalidf("code", "holds a NUL byte at offset %d", at)
	}
	if !utf8.Valid(req.Code) {
		return sandbox.Invalidf("code", "is not valid UTF-8: a bad byte at offset %d", badUTF8(req.Code))
	}
	if name := req.FileName; name != "" {
		if err := checkPath("file name", name); err != nil {
			return err
		}
		if strings.Contains(name, "/") {
			return sandbox.Invalidf("file name", "%.80q has a folder", name)
		}
	}
	return nil
}

// badUTF8 returns the offset of the first byte that is not valid UTF-8.
func badUTF8(b []byte) int {
	at := 0
	for at < len(b) {
		r, size := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && size == 1 {
			break
		}
		at += size
	}
	return at
}

// checkWords limits arguments and environment together, so that the start fits into a message and execve.
func checkWords(argv, env []string) error {
	total := 0
	for _, list := range [][]string{argv, env} {
		for _, word := range list {
			total += len(word) + 1
		}
	}
	if total > MaxWords {
		return tooLarge("arguments and environment together", total, MaxWords)
	}
	return nil
}

func checkReturn(r *sandbox.Return) error {
	switch {
	case r.MaxFiles < 0 || r.MaxFileBytes < 0 || r.MaxBytes < 0:
		return sandbox.Invalidf("return_files", "the limits must be positive")
	case r.MaxFiles > MaxReturnFiles:
		return sandbox.Invalidf("return_files", "at most %d files can be returned", MaxReturnFiles)
	case r.MaxFileBytes > MaxReturnBytes || r.MaxBytes > MaxReturnBytes:
		return sandbox.Invalidf("return_files", "at most %s can be returned", sandbox.FormatBytes(MaxReturnBytes))
	case len(r.Globs) > MaxGlobs:
		return sandbox.Invalidf("return_files", "has more than %d patterns", MaxGlobs)
	}
	if r.MaxFiles == 0 {
		r.MaxFiles = sandbox.DefaultReturnFiles
	}
	if r.MaxFileBytes == 0 {
		r.MaxFileBytes = sandbox.DefaultReturnFileBytes
	}
	if r.MaxBytes == 0 {
		r.MaxBytes = sandbox.DefaultReturnBytes
	}
	return nil
}

func tooLarge(what string, size, most int) error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Op: what,
		Msg: sandbox.FormatBytes(int64(size)) + " is over the limit of " + sandbox.FormatBytes(int64(most))}
}
