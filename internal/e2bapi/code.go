package e2bapi

import (
	"encoding/json"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// home is where relative paths, commands and contexts begin.
const home = sandbox.Workspace

// contextInfo describes a context; the SDKs need all three fields.
type contextInfo struct {
	ID       string `json:"id"`
	Language string `json:"language"`
	Dir      string `json:"cwd"`
}

func showContext(c engine.ContextInfo) contextInfo {
	return contextInfo{ID: c.Name, Language: c.Language, Dir: c.Dir}
}

// listContexts is GET /contexts.
func (f *face) listContexts(w *httpd.Response, _ *http.Request, s *engine.Sandbox) error {
	list := []contextInfo{}
	for _, c := range s.Info().Contexts {
		list = append(list, showContext(c))
	}
	return f.WriteJSON(w, list)
}

// createContext is POST /contexts.
func (f *face) createContext(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req struct {
		Language string `json:"language"`
		Dir      string `json:"cwd"`
	}
	release, err := f.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	// A name looks unlike an id of ours, which is reserved.
	name := "c-" + strings.ToLower(string(sandbox.NewID()))[:20]
	c, err := s.CreateContext(r.Context(), name, languageOf(req.Language), req.Dir)
	if err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, showContext(c.Info()))
}

// languageOf returns a language in our words.
func languageOf(text string) string {
	switch text = strings.ToLower(text); text {
	case "":
		return "python"
	case "js":
		return "javascript"
	case "ts":
		return "typescript"
	}
	return text
}

// inContext finds the context of a request.
func inContext(h func(*httpd.Response, *http.Request, *engine.Context) error) inside {
	return func(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
		c, err := findContext(s, r.PathValue("context"))
		if err != nil {
			return err
		}
		return h(w, r, c)
	}
}

func findContext(s *engine.Sandbox, id string) (*engine.Context, error) {
	c, err := s.Context(id)
	if sandbox.KindOf(err) == sandbox.NotFound {
		return nil, &sandbox.Error{Kind: sandbox.NotFound, Msg: "Context " + id + " not found"}
	}
	return c, err
}

func (f *face) restartContext(w *httpd.Response, r *http.Request, c *engine.Context) error {
	if err := c.Restart(r.Context()); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, nil)
}

func (f *face) deleteContext(w *httpd.Response, r *http.Request, c *engine.Context) error {
	if err := c.Delete(r.Context()); err != nil {
		return err
	}
	return writeJSON(w, http.StatusOK, nil)
}

// execution is the body of POST /execute.
type execution struct {
	Code     string            `json:"code"`
	Context  string            `json:"context_id"`
	Language string            `json:"language"`
	Env      map[string]string `json:"env_vars"`
}

// execute is POST /execute: it runs code in a context and streams what happens, a JSON object per line.
func (f *face) execute(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
	var req execution
	release, err := f.readJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	if req.Context != "" && req.Language != "" {
		return sandbox.Invalidf("language", "cannot be combined with context_id")
	}
	run := engine.RunRequest{Context: req.Context, Request: sandbox.Request{Code: []byte(req.Code),
		Language: languageOf(req.Language)}, Background: true}
	if req.Context != "" {
		c, err := findContext(s, req.Context)
		if err != nil {
			return err
		}
		run.Request.Language = c.Info().Language
	}
	for name, value := range req.Env {
		run.Request.Env = append(run.Request.Env, name+"="+value)
	}
	slices.Sort(run.Request.Env)
	run.Detach() // the client sets its own time limit
	x, err := s.Start(r.Context(), run)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := &lines{w: w}
	err = x.Follow(r.Context(), 0, lines.event)
	if err != nil && r.Context().Err() != nil {
		x.Cancel() // as the client has left, nobody wants the rest
	}
	if err != nil || lines.err != nil {
		panic(http.ErrAbortHandler) // an incomplete stream must not look complete
	}
	return nil
}

// keepAlive is how often a silent stream sends a line, so that a lost client is noticed.
const keepAlive = 5 * time.Second

// lines writes the events of a run, a JSON object per line.
type lines struct {
	w     *httpd.Response
	err   error
	begun bool
}

// line is one line of the stream. The SDK for JavaScript decodes each piece of the stream by itself, so that no
// character may be cut: all text is ASCII.
func (l *lines) line(v map[string]any) error {
	text, err := json.Marshal(v)
	if err == nil {
		_, err = l.w.Write(append(ascii(text), '\n'))
	}
	if err == nil {
		err = l.w.FlushError()
	}
	l.err = err
	return err
}

// ascii escapes all other characters of JSON.
func ascii(text []byte) []byte {
	plain := true
	for _, c := range text {
		plain = plain && c < 0x80
	}
	if plain {
		return text
	}
	var out []byte
	for _, c := range string(text) {
		switch {
		case c < 0x80:
			out = append(out, byte(c))
		case c < 0x10000:
			out = appendEscape(out, c)
		default: // as two surrogates (RFC 8259, section 7)
			c -= 0x10000
			out = appendEscape(appendEscape(out, 0xd800+c>>10), 0xdc00+c&0x3ff)
		}
	}
	return out
}

func appendEscape(out []byte, c rune) []byte {
	const digits = "0123456789abcdef"
	return append(out, '\\', 'u', digits[c>>12&15], digits[c>>8&15], digits[c>>4&15], digits[c&15])
}

// event writes the line of an event.
func (l *lines) event(e engine.Event) error {
	if !l.begun {
		l.begun = true
		if err := l.line(map[string]any{"type": "number_of_executions", "execution_count": 1}); err != nil {
			return err
		}
	}
	switch e.Kind {
	case eventlog.Stdout, eventlog.Stderr:
		name := "stdout"
		if e.Kind == eventlog.Stderr {
			name = "stderr"
		}
		return l.line(map[string]any{"type": name, "text": strings.ToValidUTF8(string(e.Data), "\ufffd"),
			"timestamp": time.Now().UTC().Format("2006-01-02T15:04:05.000000Z")})
	case eventlog.Result:
		return l.line(resultOf(e.Result))
	case eventlog.Done:
		return l.end(e.Ended)
	}
	return nil // an exception comes again with the end
}

// end writes the lines at the end of a run.
func (l *lines) end(e *engine.Ended) error {
	var failed map[string]any
	switch {
	case e.Exception != nil:
		failed = map[string]any{"name": e.Exception.Name, "value": e.Exception.Value, "traceback": e.Exception.Traceback}
	case e.Failure != "":
		failed = map[string]any{"name": "SandboxError", "value": e.Failure, "traceback": ""}
	case e.Status != sandbox.StatusSucceeded:
		failed = map[string]any{"name": "ExecutionError", "value": string(e.Status), "traceback": ""}
	}
	if failed != nil {
		failed["type"] = "error"
		if err := l.line(failed); err != nil {
			return err
		}
	}
	return l.line(map[string]any{"type": "end_of_execution"})
}

// fieldOf has the fields of results by media type; others are in extra.
var fieldOf = map[string]string{"text/plain": "text", "text/html": "html", "text/markdown": "markdown",
	"image/svg+xml": "svg", "image/png": "png", "image/jpeg": "jpeg", "application/pdf": "pdf", "text/latex": "latex",
	"application/javascript": "javascript"}

// resultOf returns the line of a value that the code displayed.
func resultOf(v *sandbox.Value) map[string]any {
	out, extra := map[string]any{"type": "result", "is_main_result": v.Main}, map[string]any{}
	for _, form := range v.Forms {
		name, known := fieldOf[form.Type]
		switch {
		case form.Type == "application/json":
			out["json"] = json.RawMessage(form.Data)
		case form.Type == "image/png" || form.Type == "image/jpeg":
			out[name] = form.Data // in base64
		case form.Type == "text/plain":
			out[name] = unquoted(string(form.Data))
		case known:
			out[name] = string(form.Data)
		default:
			extra[form.Type] = string(form.Data)
		}
	}
	out["extra"] = extra
	return out
}

// unquoted removes one pair of quotes around a text, as E2B does.
func unquoted(text string) string {
	if n := len(text); n >= 2 && (text[0] == '\'' || text[0] == '"') && text[n-1] == text[0] {
		return text[1 : n-1]
	}
	return text
}
