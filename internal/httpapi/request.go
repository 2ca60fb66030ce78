package httpapi

import (
	"math"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// RunRequest is the body of POST /v1/run.
type RunRequest struct {
	Language        string            `json:"language" doc:"Name or alias of a language; GET /v1/languages lists them. Needed with code." example:"python"`
	Code            *string           `json:"code" doc:"Source text to run. Exactly one of code and command is given." example:"print(6*7)"`
	Command         []string          `json:"command" doc:"A program and its arguments, run as they are, without a shell." max:"4096"`
	Args            []string          `json:"args" doc:"Arguments of the code." max:"4096"`
	Stdin           string            `json:"stdin" doc:"Text that the program reads from its standard input." nul:"ok"`
	StdinBase64     []byte            `json:"stdin_base64" doc:"The same as base64, for bytes that are no text. At most one of stdin and stdin_base64 is given."`
	Files           []FileIn          `json:"files" doc:"Files that lie in /workspace before the start." max:"10000"`
	Env             map[string]string `json:"env" doc:"Environment variables. Nothing is inherited from the server." max:"1024"`
	Packages        StringOrList      `json:"packages" doc:"\"auto\", \"none\" or a list of requirements. This version serves \"none\"." max:"256" example:"none"`
	Limits          Limits            `json:"limits" doc:"A limit that is named here is enforced, or the request is refused."`
	Network         Network           `json:"network" doc:"What the sandbox may reach. This version serves the mode none."`
	Metadata        map[string]string `json:"metadata" doc:"Any strings of yours, such as user, agent or run. They are written to the log." max:"32"`
	Backend         string            `json:"backend" doc:"Which walls: a name of GET /v1/capabilities, or auto for the strongest here. Absent is the server's default." example:"native"`
	Image           string            `json:"image" doc:"On docker and podman, the image that is the root. The server fetches none: it must be there." example:"python:3.12-slim"`
	Checks          string            `json:"checks" doc:"Static checks before the run. This version serves off." enum:"off,warn,enforce"`
	ReturnFiles     []string          `json:"return_files" doc:"Patterns of files below /workspace that are handed back if they were made or changed; ** is any depth." max:"256" example:"**/*.png"`
	AllowUnenforced []string          `json:"allow_unenforced" doc:"Names of limits, or commands, that you let go of where this host cannot keep them." max:"64"`
}

// FileIn is one file on its way into the workspace.
type FileIn struct {
	Path          string  `json:"path" required:"true" doc:"Relative to /workspace." example:"data/in.csv"`
	Content       *string `json:"content" doc:"The content as text." nul:"ok"`
	ContentBase64 *[]byte `json:"content_base64" doc:"The content as base64. Exactly one of content and content_base64 is given."`
}

// Limits are the limits of one run. In a request an absent one is the server's default.
type Limits struct {
	TimeoutS  *float64 `json:"timeout_s" doc:"Wall time in seconds." example:"30"`
	MemoryMiB *float64 `json:"memory_mib" doc:"Memory in MiB, files not counted." example:"512"`
	CPUs      *float64 `json:"cpus" doc:"CPUs; fractions are allowed." example:"1"`
	DiskMiB   *float64 `json:"disk_mib" doc:"Bytes of all writable places together, in MiB. They count as memory too. Where it is left out, at most half of the memory." example:"100"`
	Pids      *float64 `json:"pids" doc:"Processes and threads." example:"128"`
	OutputKiB *float64 `json:"output_kib" doc:"Kept bytes of stdout and of stderr, each, in KiB." example:"1024"`
	Inodes    *float64 `json:"inodes" doc:"Files and directories in the writable places." example:"16384"`
	OpenFiles *float64 `json:"open_files" doc:"Open descriptors of one process." example:"1024"`
}

// Network is what a sandbox may reach.
type Network struct {
	Mode           string   `json:"mode" doc:"How far the network reaches." enum:"none,restricted,full"`
	Allow          []string `json:"allow" doc:"Names and addresses that may be reached." max:"1024"`
	Deny           []string `json:"deny" doc:"Names and addresses that may not be reached." max:"1024"`
	MaxConnections *int64   `json:"max_connections" doc:"Connections at the same time."`
	Inspect        []string `json:"inspect" doc:"Names whose encrypted traffic is inspected." max:"1024"`
}

// run checks what concerns this API alone and turns the request into the engine's value. What the engine checks for every
// face (languages, paths, variables, limits) is left to it.
func (r *RunRequest) run() (engine.Run, error) {
	if err := r.unsupported(); err != nil {
		return engine.Run{}, err
	}
	if r.Image != "" {
		if err := sandbox.CheckImage(r.Image); err != nil {
			return engine.Run{}, err
		}
	}
	limits, err := r.Limits.limits()
	if err != nil {
		return engine.Run{}, err
	}
	files, err := filesIn(r.Files)
	if err != nil {
		return engine.Run{}, err
	}
	env := make([]string, 0, len(r.Env))
	for name, value := range r.Env {
		if strings.Contains(name, "=") { // joined to its value it would name another variable
			return engine.Run{}, sandbox.Invalidf("env", "the name %.40q holds a '='", name)
		}
		env = append(env, name+"="+value)
	}
	slices.Sort(env)
	var code []byte // nil is no code; the engine tells it from empty code
	if r.Code != nil {
		code = []byte(*r.Code)
	}
	stdin := r.StdinBase64
	if r.Stdin != "" {
		if len(stdin) > 0 {
			return engine.Run{}, sandbox.Invalidf("stdin", "give either stdin or stdin_base64")
		}
		stdin = []byte(r.Stdin)
	}
	return engine.Run{
		Backend: r.Backend,
		Spec: sandbox.Spec{
			Limits:          limits,
			Network:         sandbox.NetworkPolicy{Mode: sandbox.NetworkNone},
			AllowUnenforced: r.AllowUnenforced,
			Root:            sandbox.Root{Image: r.Image},
		},
		Request: sandbox.Request{
			Language: r.Language,
			Code:     code,
			Command:  r.Command,
			Args:     r.Args,
			Stdin:    stdin,
			Files:    files,
			Env:      env,
			Return:   sandbox.Return{Globs: r.ReturnFiles},
			Metadata: r.Metadata,
		},
	}, nil
}

// unsupported refuses, before anything runs, what is asked for and would otherwise be passed over in silence.
func (r *RunRequest) unsupported() error {
	n := &r.Network
	for _, field := range []struct {
		bad           bool
		name, instead string
	}{
		{n.Mode != "" && n.Mode != string(sandbox.NetworkNone), "network.mode", "only none is served"},
		{len(n.Allow)+len(n.Inspect) > 0, "network.allow", "there is no network to allow or inspect names on"},
		{n.MaxConnections != nil && *n.MaxConnections != 0, "network.max_connections", "there is no network to connect on"},
		{len(r.Packages) > 0 && !slices.Equal(r.Packages, []string{"none"}), "packages", "they are not installed on request; use those that the root holds"},
		{r.Checks != "" && r.Checks != "off", "checks", "there are no static checks"},
	} {
		if field.bad {
			return &sandbox.Error{Kind: sandbox.Unsupported, Op: field.name, Msg: field.instead,
				Fix: "leave " + field.name + " out"}
		}
	}
	return nil
}

func filesIn(in []FileIn) ([]sandbox.File, error) {
	files := make([]sandbox.File, len(in))
	for i, f := range in {
		files[i].Path = f.Path
		switch {
		case f.Content != nil && f.ContentBase64 == nil:
			files[i].Data = []byte(*f.Content)
		case f.Content == nil && f.ContentBase64 != nil:
			files[i].Data = *f.ContentBase64
		default:
			return nil, sandbox.Invalidf("files", "the file %.80q needs one of content and content_base64", f.Path)
		}
	}
	return files, nil
}

// limits turns the units of the API into those of the contract. 0 is refused, so that it never comes to mean no limit.
func (l *Limits) limits() (sandbox.Limits, error) {
	var out sandbox.Limits
	for _, f := range l.fields() {
		if *f.value == nil {
			continue
		}
		v := **f.value
		if v <= 0 {
			return out, sandbox.Invalidf("limits."+f.field, "must be positive; leave it out for the default")
		}
		if v*f.unit > math.MaxInt64/2 {
			return out, sandbox.Invalidf("limits."+f.field, "is too large")
		}
		if v*f.unit < 1 || f.unit == 1 && v != math.Trunc(v) {
			return out, sandbox.Invalidf("limits."+f.field, "must be a whole number")
		}
		out.Set(f.name, int64(math.Round(v*f.unit)))
	}
	return out, nil
}

// fieldOf names the field of this API that an error of the engine speaks of: "limits.memory" is limits.memory_mib here.
func fieldOf(op string) string {
	name, ok := strings.CutPrefix(op, "limits.")
	if !ok {
		return op
	}
	var l Limits
	for _, f := range l.fields() {
		if string(f.name) == name {
			return "limits." + f.field
		}
	}
	return op
}

type limitField struct {
	name  sandbox.LimitName
	field string
	value **float64
	unit  float64 // of the API's field in the contract's
}

func (l *Limits) fields() []limitField {
	return []limitField{
		{sandbox.LimitTimeout, "timeout_s", &l.TimeoutS, float64(time.Second)},
		{sandbox.LimitMemory, "memory_mib", &l.MemoryMiB, mib},
		{sandbox.LimitCPUs, "cpus", &l.CPUs, 1000},
		{sandbox.LimitDisk, "disk_mib", &l.DiskMiB, mib},
		{sandbox.LimitPids, "pids", &l.Pids, 1},
		{sandbox.LimitOutput, "output_kib", &l.OutputKiB, kib},
		{sandbox.LimitInodes, "inodes", &l.Inodes, 1},
		{sandbox.LimitOpenFiles, "open_files", &l.OpenFiles, 1},
	}
}

const (
	kib = 1 << 10
	mib = 1 << 20
)

// newLimits shows limits in the units of the API. What nothing enforces, or what is not known, stays nil.
func newLimits(in sandbox.Limits) Limits {
	var out Limits
	for _, f := range out.fields() {
		if v := in.Get(f.name); v > 0 {
			shown := float64(v) / f.unit
			*f.value = &shown
		}
	}
	return out
}
