package httpapi

import (
	"maps"
	"net/http"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// execute is POST /execute.
func (a *apiV1) execute(w *httpd.Response, r *http.Request) error {
	var req api.ExecuteRequest
	release, err := a.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	if req.Code == nil {
		return sandbox.Invalidf("code", "is missing")
	}
	if req.Language == "" {
		req.Language = a.defaultLanguage()
	}
	run := engine.OneShot{Request: sandbox.Request{
		Language: req.Language,
		Code:     []byte(*req.Code),
		Return:   sandbox.Return{Globs: []string{"**"}},
	}}
	text, err := a.CarryOut(r.Context(), w, run, func(r *sandbox.Result) (*largejson.JSON, int64) {
		return executeJSON(newExecuteAnswer(r)), 0
	})
	if err != nil {
		return err
	}
	release()
	return a.WriteJSON(w, text)
}

func newExecuteAnswer(r *sandbox.Result) *api.ExecuteAnswer {
	a := &api.ExecuteAnswer{
		Success: r.Status == sandbox.StatusSucceeded,
		Output:  answer.Text(r.Stdout) + answer.Text(r.Stderr),
		Files:   make(map[string][]byte, len(r.Files)),
	}
	for _, f := range r.Files {
		a.Files[f.Path] = answer.List(f.Data) // an empty file is "", never null
	}
	hints := r.Hints
	if !a.Success {
		text := wording.HTTP.Hint(hints)
		if e := r.Exception; e != nil {
			text = e.Name
			if e.Value != "" {
				text += ": " + e.Value
			}
		} else {
			hints = nil
		}
		a.Error = &text
	}
	a.Output = appendHints(a.Output, hints)
	return a
}

// executeJSON returns the answer's JSON. It modifies the answer.
func executeJSON(a *api.ExecuteAnswer) *largejson.JSON {
	l := largejson.NewLayout()
	l.String(&a.Output)
	if a.Error != nil {
		l.String(a.Error)
	}
	for _, path := range slices.Sorted(maps.Keys(a.Files)) { // as encoding/json sorts them
		content := a.Files[path]
		l.Bytes(&content)
		a.Files[path] = content
	}
	return l.Around(a)
}

// appendHints adds hints to the output, as this schema has no other place for them. The error already reports a plain
// failure.
func appendHints(output string, hints []sandbox.Hint) string {
	said := wording.HTTP.Hint(sandbox.WithoutHint[sandbox.HintExitCode](hints))
	if said == "" {
		return output
	}
	if output != "" && !strings.HasSuffix(output, "\n") {
		output += "\n"
	}
	return output + "[" + said + "]\n"
}
