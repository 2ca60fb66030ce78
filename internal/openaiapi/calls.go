package openaiapi

import (
	"bytes"
	"encoding/base64"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// codeCall is the code_interpreter_call item of OpenAI's Responses API.
type codeCall struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	Status    string   `json:"status"`
	Code      string   `json:"code"`
	Container string   `json:"container_id"`
	Outputs   []output `json:"outputs"`
}

// output is a part of the output: logs or an image.
type output struct {
	Type string `json:"type"`
	Logs string `json:"logs,omitempty"`
	URL  string `json:"url,omitempty"`
}

// interpret is POST /containers/{id}/code_interpreter_calls: it runs the code of an item as Python, whose variables
// stay, and answers with the item and its outputs.
func (f *face) interpret(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var call codeCall
	release, err := f.ReadJSON(w, r, &call)
	defer release()
	if err != nil {
		return err
	}
	if call.ID == "" {
		call.ID = "ci_" + string(sandbox.NewID())
	}
	call.Type, call.Container = "code_interpreter_call", idPrefix+string(s.ID())
	run := engine.RunRequest{Request: sandbox.Request{Language: "python", Code: []byte(call.Code)}}
	text, err := f.hold(w, r, s, run, func(result *sandbox.Result) *largejson.JSON {
		call.Outputs, call.Status = outputsOf(result), "completed"
		switch result.Status {
		case sandbox.StatusSucceeded, sandbox.StatusFailed:
		default:
			call.Status = "incomplete"
		}
		return call.layOut()
	})
	if err != nil {
		return err
	}
	return f.WriteJSON(w, text)
}

// layOut returns the JSON of the item, which it modifies.
func (c *codeCall) layOut() *largejson.JSON {
	l := largejson.NewLayout()
	l.String(&c.Code)
	for i := range c.Outputs {
		l.String(&c.Outputs[i].Logs)
		l.String(&c.Outputs[i].URL)
	}
	return l.Around(c)
}

// hold runs in a container. The room for the answer is taken before the run gives its slot to the next.
func (f *face) hold(w *httpd.Response, r *http.Request, s *engine.Sandbox, run engine.RunRequest,
	show func(*sandbox.Result) *largejson.JSON) (*largejson.JSON, error) {
	layOut := func(result *sandbox.Result) (*largejson.JSON, int64) { return show(result), 0 }
	return f.Hold(r.Context(), w, &run.Request, layOut, func(deliver func(*sandbox.Result) error) error {
		run.Deliver = deliver
		_, err := s.Run(r.Context(), run)
		return err
	})
}

// outputsOf returns the outputs of a run: what it wrote, with the exception and the value of the last expression, and
// images, in the order in which they were displayed.
func outputsOf(r *sandbox.Result) []output {
	logs := []byte(answer.Text(r.Stdout) + answer.Text(r.Stderr))
	var images []output
	for _, v := range r.Results {
		shown, text := false, []byte(nil)
		for _, form := range v.Forms {
			switch form.Type {
			case "image/png", "image/jpeg":
				images = append(images, output{Type: "image",
					URL: "data:" + form.Type + ";base64," + base64.StdEncoding.EncodeToString(form.Data)})
				shown = true
			case "text/plain":
				text = form.Data
			}
		}
		if !shown && len(text) > 0 {
			if logs = bytes.TrimSuffix(logs, []byte("\n")); len(logs) > 0 {
				logs = append(logs, '\n')
			}
			logs = append(logs, text...)
		}
	}
	outputs := []output{}
	if len(logs) > 0 {
		outputs = append(outputs, output{Type: "logs", Logs: strings.ToValidUTF8(string(logs), "\ufffd")})
	}
	return append(outputs, images...)
}

// shellCall is the shell_call item of OpenAI's Responses API.
type shellCall struct {
	CallID string `json:"call_id"`
	Action struct {
		Commands  []string `json:"commands"`
		TimeoutMS *int64   `json:"timeout_ms"`
		MaxOutput *int64   `json:"max_output_length"`
	} `json:"action"`
}

// shellOutput is the shell_call_output item.
type shellOutput struct {
	ID        string   `json:"id"`
	Type      string   `json:"type"`
	CallID    string   `json:"call_id"`
	Status    string   `json:"status"`
	MaxOutput *int64   `json:"max_output_length"`
	Output    []result `json:"output"`
}

// result is the result of one command.
type result struct {
	Stdout  string  `json:"stdout"`
	Stderr  string  `json:"stderr"`
	Outcome outcome `json:"outcome"`
}

type outcome struct {
	Type     string `json:"type"` // exit or timeout
	ExitCode *int   `json:"exit_code,omitempty"`
}

const maxCommands = 100 // of one call

// shell is POST /containers/{id}/shell_calls: it runs the commands of an item one after the other, each in a new shell,
// and answers with the item of their output.
func (f *face) shell(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var call shellCall
	release, err := f.ReadJSON(w, r, &call)
	defer release()
	if err != nil {
		return err
	}
	n, most, limit := len(call.Action.Commands), call.Action.MaxOutput, call.Action.TimeoutMS
	if n == 0 || n > maxCommands {
		return sandbox.Invalidf("action.commands", "must have from 1 to %d commands", maxCommands)
	}
	if most != nil && *most < 0 || limit != nil && (*limit < 1 || *limit > int64(engine.MaxLifetime/time.Millisecond)) {
		return sandbox.Invalidf("action", "max_output_length and timeout_ms must be positive")
	}
	out := shellOutput{ID: "sho_" + string(sandbox.NewID()), Type: "shell_call_output", CallID: call.CallID,
		Status: "completed", MaxOutput: most, Output: []result{}}
	for _, command := range call.Action.Commands {
		if err := f.Reserve(r.Context(), w, httpd.FreeAnswer); err != nil { // hold counts what is above it
			return err
		}
		run := engine.RunRequest{Request: sandbox.Request{Command: []string{"/bin/bash", "-c", command}}}
		if limit != nil {
			run.Request.Timeout = time.Duration(*limit) * time.Millisecond
		}
		_, err := f.hold(w, r, s, run, func(done *sandbox.Result) *largejson.JSON {
			one := resultOf(done, most)
			out.Output = append(out.Output, one)
			l := largejson.NewLayout()
			one.takeOut(l)
			return l.Around(one)
		})
		if err != nil {
			return err
		}
	}
	l := largejson.NewLayout()
	for i := range out.Output {
		out.Output[i].takeOut(l)
	}
	return f.WriteJSON(w, l.Around(out))
}

// takeOut takes out the long texts.
func (r *result) takeOut(l *largejson.Layout) {
	l.String(&r.Stdout)
	l.String(&r.Stderr)
}

func resultOf(done *sandbox.Result, most *int64) result {
	out := result{Stdout: answer.Text(done.Stdout), Stderr: answer.Text(done.Stderr), Outcome: outcome{Type: "timeout"}}
	if most != nil {
		out.Stdout, out.Stderr = cut(out.Stdout, *most), cut(out.Stderr, *most)
	}
	if done.Status != sandbox.StatusTimeout {
		code := done.ExitCode
		if code < 0 {
			code = 128 + done.Signal // as a shell reports it
		}
		out.Outcome = outcome{"exit", &code}
	}
	return out
}

// cut returns at most a number of characters.
func cut(text string, most int64) string {
	if int64(utf8.RuneCountInString(text)) <= most {
		return text
	}
	for i := range text {
		if most == 0 {
			return strings.Clone(text[:i]) // without the rest in memory
		}
		most--
	}
	return text
}
