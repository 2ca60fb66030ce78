package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// ownVariables name the sandbox's own places and user, so an image does not set them.
var ownVariables = []string{"HOME", "USER", "LOGNAME", "TMPDIR", "PWD", "HOSTNAME"}

// OnImage returns the rules for sandboxes on an image: its variables are above the default ones and under all others.
// Its PATH is searched first.
func (r Rules) OnImage(image sandbox.Image) Rules {
	var env []string
	for _, kv := range image.Env {
		name, value, _ := strings.Cut(kv, "=")
		if slices.Contains(ownVariables, name) || CheckEnv("env", []string{kv}) != nil {
			continue
		}
		if name == "PATH" {
			kv = name + "=" + joinPath(value, r.DefaultEnv)
		}
		env = append(env, kv)
	}
	if env != nil {
		r.DefaultEnv = MergeEnv(r.DefaultEnv, env)
	}
	return r
}

// joinPath adds the folders of the default PATH that a PATH lacks.
func joinPath(path string, defaults []string) string {
	for _, kv := range defaults {
		if list, ok := strings.CutPrefix(kv, "PATH="); ok {
			for folder := range strings.SplitSeq(list, ":") {
				if !strings.Contains(":"+path+":", ":"+folder+":") {
					path += ":" + folder
				}
			}
		}
	}
	return path
}

// Settings returns a hash of what programs of an image see besides its files. Images with the same files may differ.
func Settings(image sandbox.Image) string {
	text, err := json.Marshal([]any{image.Env, image.User, image.WorkDir})
	if err != nil { // it has only texts and numbers
		panic(err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:])
}

// Rooted returns a spec on an image, with the user of the image unless the spec names one.
func (r *Rules) Rooted(spec sandbox.Spec, image sandbox.Image) sandbox.Spec {
	if image.Digest == "" {
		return spec
	}
	spec.Root.Digest, spec.Root.WorkDir, spec.Root.Note = image.Digest, image.WorkDir, image.Note
	spec.Root.Settings, spec.Root.Start = Settings(image), image.Start
	if spec.User == (sandbox.User{}) {
		spec.User = image.User
	}
	return spec
}

// WithCommand returns a request with the command of an image if it has neither code nor a command. The arguments of the
// request replace those of the image.
func WithCommand(request sandbox.Request, image sandbox.Image) sandbox.Request {
	if HasSource(&request) || len(image.Entrypoint)+len(image.Cmd) == 0 {
		return request
	}
	args := image.Cmd
	if len(request.Args) > 0 {
		args, request.Args = request.Args, nil
	}
	request.Command = slices.Concat(image.Entrypoint, args)
	return request
}
