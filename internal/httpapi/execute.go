package httpapi

import (
	"net/http"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/engine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// ExecuteRequest is the body of POST /execute, a small schema that clients of older servers speak.
type ExecuteRequest struct {
	Code     *string `json:"code" required:"true" doc:"Source text to run." example:"print(6*7)"`
	Language string  `json:"language" doc:"Name or alias of a language; absent is python." example:"python"`
}

// ExecuteAnswer is the answer to it.
type ExecuteAnswer struct {
	Success bool              `json:"success" doc:"Whether the program ended by itself with exit code 0."`
	Output  string            `json:"output" doc:"What it wrote to stdout, then what it wrote to stderr. A last line in brackets says what else there is to know, such as files that were not handed back."`
	Error   *string           `json:"error" doc:"The uncaught exception, or what else went wrong; null after a success."`
	Files   map[string][]byte `json:"files" doc:"Files that were made or changed, as base64 by path."`
}

// executeLanguage is that of a request that names none.
const executeLanguage = "python"

// execute is POST /execute.
func (s *Server) execute(w *response, r *http.Request) error {
	var req ExecuteRequest
	release, err := s.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	if req.Code == nil {
		return sandbox.Invalidf("code", "is missing")
	}
	if req.Language == "" {
		req.Language = executeLanguage
	}
	run := engine.Run{Owner: w.key, Request: sandbox.Request{
		Language: req.Language,
		Code:     []byte(*req.Code),
		Return:   sandbox.Return{Globs: []string{"**"}},
	}}
	answer, err := s.carryOut(r.Context(), w, run, func(r *sandbox.Result) *jsonText {
		a := newExecuteAnswer(r)
		return a.layOut()
	})
	defer answer.release()
	if err != nil {
		return err
	}
	release()
	return s.writeText(w, answer.text)
}

func newExecuteAnswer(r *sandbox.Result) ExecuteAnswer {
	a := ExecuteAnswer{
		Success: r.Status == sandbox.StatusSucceeded,
		Output:  show(r.Stdout).text + show(r.Stderr).text,
		Files:   make(map[string][]byte, len(r.Files)),
	}
	for _, f := range r.Files {
		a.Files[f.Path] = list(f.Data) // an empty file is "", never null
	}
	if !a.Success {
		text := r.Hint
		if e := r.Exception; e != nil {
			text = e.Name
			if e.Value != "" {
				text += ": " + e.Value
			}
		}
		a.Error = &text
	}
	if a.Error == nil || *a.Error != r.Hint {
		a.Output = appendHint(a.Output, r)
	}
	return a
}

// appendHint adds what the hint says beyond the bare failure, which the error tells: this schema has no other place for it.
func appendHint(output string, r *sandbox.Result) string {
	said := strings.TrimSpace(strings.TrimPrefix(r.Hint, engine.FailedHint(r.ExitCode)))
	if said == "" {
		return output
	}
	if output != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	return output + "[" + said + "]\n"
}
