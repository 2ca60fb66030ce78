package template

import (
	"fmt"
	"path"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Step is one step of a build without a Dockerfile. Exactly one of its fields is set; the first step of a list is From.
type Step struct {
	From    string   `json:"from,omitempty"`    // the base image
	Run     string   `json:"run,omitempty"`     // a line for /bin/sh
	Pip     []string `json:"pip,omitempty"`     // requirements for python3 -m pip install
	Copy    string   `json:"copy,omitempty"`    // SOURCE:TARGET, a path of the context and one of the image
	Env     string   `json:"env,omitempty"`     // NAME=value
	Workdir string   `json:"workdir,omitempty"` // the working directory, which is made
	User    string   `json:"user,omitempty"`    // USER[:GROUP] of later steps
}

// installByPip installs packages beside those of the image's system, which nothing else in the image changes. The
// variables are options that old versions of pip lack.
const installByPip = "PIP_BREAK_SYSTEM_PACKAGES=1 PIP_ROOT_USER_ACTION=ignore exec python3 -m pip install " +
	"--no-cache-dir -- \"$@\""

// recipeOf converts steps.
func recipeOf(steps []Step) (*recipe, error) {
	if len(steps) > MaxSteps {
		return nil, sandbox.Invalidf("steps", "are more than %d", MaxSteps)
	}
	if len(steps) == 0 || steps[0].From == "" {
		return nil, sandbox.Invalidf("steps", "the first one must name the base image")
	}
	s := stage{base: steps[0].From}
	for n, step := range steps[1:] {
		i, err := step.instruction()
		if err != nil {
			err.Op = fmt.Sprintf("steps[%d]", n+1)
			return nil, err
		}
		i.literal = true
		s.instructions = append(s.instructions, i)
	}
	return &recipe{escape: '\\', stages: []stage{s}}, nil
}

func (s *Step) instruction() (instruction, *sandbox.Error) {
	switch {
	case s.Run != "":
		return instruction{kind: kindRun, text: "RUN " + s.Run, words: []string{s.Run}, inShell: true}, nil
	case len(s.Pip) > 0:
		words := append([]string{"/bin/sh", "-c", installByPip, "pip"}, s.Pip...)
		return instruction{kind: kindRun, text: "RUN pip install " + strings.Join(s.Pip, " "), words: words}, nil
	case s.Copy != "":
		source, target, ok := strings.Cut(s.Copy, ":")
		if !ok || source == "" || !path.IsAbs(target) {
			return instruction{}, sandbox.Invalidf("",
				"copy: %.200q is not SOURCE:TARGET with an absolute target", s.Copy)
		}
		return instruction{kind: kindCopy, text: "COPY " + source + " " + target,
			copies: copying{sources: []string{source}, to: target}}, nil
	case s.Env != "":
		name, value, ok := strings.Cut(s.Env, "=")
		if !ok || name == "" {
			return instruction{}, sandbox.Invalidf("", "env: %.80q is not NAME=value", s.Env)
		}
		return instruction{kind: kindEnv, text: "ENV " + s.Env, pairs: []pair{{name, value, true}}}, nil
	case s.Workdir != "":
		return instruction{kind: kindWorkdir, text: "WORKDIR " + s.Workdir, words: []string{s.Workdir}}, nil
	case s.User != "":
		return instruction{kind: kindUser, text: "USER " + s.User, words: []string{s.User}}, nil
	}
	return instruction{}, sandbox.Invalidf("", "it has nothing to do; From is for the first step alone")
}
