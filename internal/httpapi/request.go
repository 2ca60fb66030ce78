package httpapi

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/nearest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// RunRequest is the body of POST /v1/run.
type RunRequest struct {
	Language        string            `json:"language" doc:"Name or alias of a language; GET /v1/languages lists them. Required with code." example:"python"`
	Code            *string           `json:"code" doc:"Source text to run. Give exactly one of code and command." example:"print(6*7)" pattern:"\\S" one:"program"`
	Command         []string          `json:"command" doc:"A program and its arguments, run without a shell." max:"4096" one:"program"`
	Args            []string          `json:"args" doc:"Arguments of the code." max:"4096"`
	Stdin           string            `json:"stdin" doc:"Standard input of the program, as text." nul:"ok"`
	StdinBase64     []byte            `json:"stdin_base64" doc:"Standard input as base64, for bytes that are not text. Give at most one of stdin and stdin_base64."`
	Files           []FileIn          `json:"files" doc:"Files to write to /workspace before the start." max:"10000"`
	Env             map[string]string `json:"env" doc:"Environment variables. Nothing is inherited from the server." max:"1024"`
	Limits          api.Limits        `json:"limits" doc:"A limit that is named here is enforced, or the request is refused."`
	Network         NetworkIn         `json:"network" doc:"What the sandbox may reach."`
	Packages        []string          `json:"packages" doc:"Packages of the language that are installed before the run, without a network at run time: auto for those that the code imports and the sandbox lacks, or names with versions. auto alone means nothing to a command, and to a language without packages." max:"500" example:"auto"`
	AllowBuild      bool              `json:"allow_build" doc:"Let packages run code of theirs while they are installed: source distributions, install scripts."`
	Lock            string            `json:"lock" doc:"Install exactly these, as fumehood deps lock prints them, in place of packages."`
	Metadata        map[string]string `json:"metadata" doc:"Any strings of yours, such as user, agent or run. They are written to the log." max:"32"`
	Backend         string            `json:"backend" doc:"What isolates the run: a name of GET /v1/capabilities, or auto for the strongest here. Absent is the server's default." example:"native"`
	Image           string            `json:"image" doc:"On docker and podman, the image that is the root file system. The server fetches none: it must be there." example:"python:3.12-slim"`
	ReturnFiles     []string          `json:"return_files" doc:"Patterns of files below /workspace that are handed back if they were made or changed; ** is any depth." max:"256" example:"**/*.png"`
	AllowUnenforced []string          `json:"allow_unenforced" doc:"Names of limits, or commands, that need not be enforced where this host cannot do it." max:"64"`
	Checks          sandbox.CheckMode `json:"checks" doc:"What checks of the source text do: findings in the answer (warn), or a rejection before anything ran (enforce). Absent is the server's default, warn unless it says otherwise; a weaker mode than the server's has no effect. They are advice, and no isolation layer." enum:"off,warn,enforce"`
	Include         []string          `json:"include" doc:"Sections of the answer that are to be there also where they have nothing to say." max:"16" enum:"compile,findings,output,skipped_files,sandbox"`
}

// FileIn is one file on its way into the workspace.
type FileIn struct {
	Path          string   `json:"path" required:"true" doc:"Relative to /workspace." example:"data/in.csv"`
	Mode          string   `json:"mode" doc:"Permission bits in octal; 0644 if absent." pattern:"^0*[0-7]{1,3}$" example:"0755" form:"0755"`
	Content       *string  `json:"content" doc:"The content as text." nul:"ok" one:"content"`
	ContentBase64 *[]byte  `json:"content_base64" doc:"The content as base64. Exactly one of content and content_base64 is given." one:"content"`
	Size          *float64 `json:"size" doc:"Of the content, in bytes: compared where it is given, so that a file of an answer can be sent as it is." whole:"true"`
	SHA256        string   `json:"sha256" doc:"Of the content, in hexadecimal: compared where it is given."`
}

// run checks what concerns this API alone and returns the engine's value. The engine checks languages, paths, variables and limits
// for every face.
func (r *RunRequest) run() (engine.Run, error) {
	spec, err := specIn(r.Limits, r.Network, r.Image, r.AllowUnenforced)
	if err != nil {
		return engine.Run{}, err
	}
	files, err := filesIn(r.Files)
	if err != nil {
		return engine.Run{}, err
	}
	env, err := envIn(r.Env)
	if err != nil {
		return engine.Run{}, err
	}
	if err := checkInclude(r.Include); err != nil {
		return engine.Run{}, err
	}
	var code []byte // nil is no code; the engine distinguishes it from empty code
	if r.Code != nil {
		code = []byte(*r.Code)
	}
	stdin, err := stdinIn(r.Stdin, r.StdinBase64)
	if err != nil {
		return engine.Run{}, err
	}
	return engine.Run{
		Backend: r.Backend,
		Spec:    spec,
		Request: sandbox.Request{
			Language: r.Language,
			Code:     code,
			Command:  r.Command,
			Args:     r.Args,
			Stdin:    stdin,
			Files:    files,
			Env:      env,
			Return:   sandbox.Return{Globs: r.ReturnFiles},
			Packages: sandbox.PackagesOf(r.Packages, r.AllowBuild, r.Lock),
			Metadata: r.Metadata,
			Checks:   r.Checks,
		},
	}, nil
}

// specIn is the part of a spec that all requests for a sandbox have.
func specIn(in api.Limits, network NetworkIn, image string, waived []string) (spec sandbox.Spec, err error) {
	policy, err := network.policy()
	if err != nil {
		return spec, err
	}
	if image != "" {
		if err := sandbox.CheckImage(image); err != nil {
			return spec, err
		}
	}
	limits, err := answer.Contract(&in)
	if err != nil {
		return spec, err
	}
	return sandbox.Spec{Limits: limits, Network: policy, AllowUnenforced: waived, Root: sandbox.Root{Image: image}}, nil
}

func stdinIn(text string, bytes []byte) ([]byte, error) {
	switch {
	case text == "":
		return bytes, nil
	case len(bytes) > 0:
		return nil, sandbox.Invalidf("stdin", "give either stdin or stdin_base64")
	}
	return []byte(text), nil
}

func envIn(in map[string]string) ([]string, error) {
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

// check compares a file with what is said of it.
func (f *FileIn) check(field string, data []byte) error {
	if f.Size != nil && *f.Size != float64(len(data)) {
		return sandbox.Invalidf(field+".size", "is %v, and the content has %d bytes", *f.Size, len(data))
	}
	if sum := sha256.Sum256(data); f.SHA256 != "" && !strings.EqualFold(f.SHA256, hex.EncodeToString(sum[:])) {
		return sandbox.Invalidf(field+".sha256", "is not that of the content")
	}
	return nil
}

func filesIn(in []FileIn) ([]sandbox.File, error) {
	files := make([]sandbox.File, len(in))
	for i, f := range in {
		files[i].Path = f.Path
		var err error
		if files[i].Mode, err = modeIn("files["+strconv.Itoa(i)+"].mode", f.Mode); err != nil {
			return nil, err
		}
		switch {
		case f.Content != nil && f.ContentBase64 == nil:
			files[i].Data = []byte(*f.Content)
		case f.Content == nil && f.ContentBase64 != nil:
			files[i].Data = *f.ContentBase64
		default:
			return nil, sandbox.Invalidf("files["+strconv.Itoa(i)+"]", "needs exactly one of content and content_base64")
		}
		if err := f.check("files["+strconv.Itoa(i)+"]", files[i].Data); err != nil {
			return nil, err
		}
	}
	return files, nil
}

// modeIn parses permission bits; absent ones are 0.
func modeIn(field, octal string) (uint32, error) {
	if octal == "" {
		return 0, nil
	}
	mode, err := strconv.ParseUint(octal, 8, 32)
	if err != nil || mode == 0 || mode > 0o777 {
		return 0, sandbox.Invalidf(field, `%.20q is not permission bits in octal, such as "0755"`, octal)
	}
	return uint32(mode), nil
}

func checkInclude(include []string) error {
	for i, name := range include {
		if slices.Contains(answer.Sections, name) {
			continue
		}
		err := sandbox.Invalidf("include["+strconv.Itoa(i)+"]", "%.40q is not one of %s", name, strings.Join(answer.Sections, ", "))
		if near := nearest.Name(name, answer.Sections); near != "" {
			err.Fix = "did you mean " + near + "?"
		}
		return err
	}
	return nil
}
