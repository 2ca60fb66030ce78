package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// requestOf converts the program of a request. The engine checks languages, paths, variables and limits for every face.
func requestOf(p *api.Program) (r sandbox.Request, err error) {
	r = sandbox.Request{Language: p.Language, Command: p.Command, Args: p.Args, Stdin: p.StdinBase64,
		Return: sandbox.Return{Globs: p.ReturnFiles}, Packages: sandbox.PackagesOf(p.Packages, p.AllowBuild, ""),
		Metadata: p.Metadata, Checks: p.Checks, Calls: callsOf(p.Tools, p.CallLimits)}
	if p.Code != nil { // nil is no code; the engine distinguishes it from empty code
		r.Code = []byte(*p.Code)
	}
	if p.Stdin != "" {
		if len(p.StdinBase64) > 0 {
			return r, sandbox.Invalidf("stdin", "give either stdin or stdin_base64")
		}
		r.Stdin = []byte(p.Stdin)
	}
	if r.Files, err = filesOf(p.Files); err == nil {
		r.Env, err = envOf(p.Env)
	}
	if err == nil {
		err = checkInclude(p.Include)
	}
	if r.Checks == "" && slices.Contains(p.Include, api.SectionFindings) {
		r.Checks = sandbox.ChecksWarn // or there would be only those that refuse code
	}
	return r, err
}

// specOf converts the isolation of a request into a partial spec.
func specOf(in *api.Isolation) (spec sandbox.Spec, err error) {
	spec = sandbox.Spec{AllowUnenforced: in.AllowUnenforced, Root: sandbox.Root{Image: in.Image},
		Volumes: answer.VolumesOf(in.Volumes)}
	if in.Image != "" {
		if err := sandbox.CheckImage(in.Image); err != nil {
			return spec, err
		}
	}
	if spec.Network, err = networkOf(&in.Network); err == nil {
		spec.Limits, err = answer.LimitsOf(&in.Limits)
	}
	return spec, err
}

func envOf(in map[string]string) ([]string, error) {
	env := make([]string, 0, len(in))
	for name, value := range in {
		if strings.Contains(name, "=") { // NAME=VALUE would set another variable
			return nil, sandbox.Invalidf("env", "the name %.40q holds a '='", name)
		}
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	return env, nil
}

func filesOf(in []api.File) ([]sandbox.File, error) {
	files := make([]sandbox.File, len(in))
	for i, f := range in {
		field := "files[" + strconv.Itoa(i) + "]"
		mode, err := modeOf(field+".mode", f.Mode)
		if err != nil {
			return nil, err
		}
		if (f.Content == nil) == (f.ContentBase64 == nil) {
			return nil, sandbox.Invalidf(field, "needs exactly one of content and content_base64")
		}
		data := f.ContentBase64
		if f.Content != nil {
			data = []byte(*f.Content)
		}
		if f.Size != nil && *f.Size != int64(len(data)) {
			return nil, sandbox.Invalidf(field+".size", "is %d, and the content has %d bytes", *f.Size, len(data))
		}
		if sum := sha256.Sum256(data); f.SHA256 != "" && !strings.EqualFold(f.SHA256, hex.EncodeToString(sum[:])) {
			return nil, sandbox.Invalidf(field+".sha256", "is not that of the content")
		}
		files[i] = sandbox.File{Path: f.Path, Mode: mode, Data: data}
	}
	return files, nil
}

// modeOf parses permission bits in octal; "" is 0.
func modeOf(field, octal string) (uint32, error) {
	if octal == "" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(octal, 8, 32)
	if err != nil || mode == 0 || mode > 0o777 {
		return 0, sandbox.Invalidf(field, `%.20q is not permission bits in octal, such as "0755"`, octal)
	}
	return uint32(mode), nil
}

func checkInclude(include []api.Section) error {
	for i, name := range include {
		if slices.Contains(api.Sections, name) {
			continue
		}
		var known []string
		for _, section := range api.Sections {
			known = append(known, string(section))
		}
		err := sandbox.Invalidf("include["+strconv.Itoa(i)+"]", "%.40q is not one of %s", name,
			strings.Join(known, ", "))
		if near := nearest.Name(string(name), known); near != "" {
			err.Fix = "did you mean " + near + "?"
		}
		return err
	}
	return nil
}
