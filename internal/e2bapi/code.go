package e2bapi

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/eventlog"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/largejson"
	"github.com/fumehood-dev/fumehood/sandbox"
)

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
	release, err := f.ReadJSON(w, r, &req)
	defer release()
	if err != nil {
		return err
	}
	if req.Context != "" && req.Language != "" {
		return sandbox.Invalidf("language", "cannot be combined with context_id")
	}
	run := engine.RunRequest{Background: true}
	run.Context, run.Request.Language, err = placeOf(r.Context(), s, &req)
	if err != nil {
		return err
	}
	switch {
	case run.Request.Language == "python":
		req.Code = dedented(req.Code)
	case run.Context == "":
		run.Request.Dir = homeOf(s)
	}
	run.Request.Code, run.Request.Env = []byte(req.Code), envOf(req.Env)
	run.Request.Packages.Auto = s.Info().Spec.Network.Mode == sandbox.NetworkFull &&
		s.MayNeedPackages(run.Request.Language, run.Request.Code)
	run.Detach() // the client sets its own time limit
	x, err := s.Start(r.Context(), run)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/x-ndjson")
	lines := &lines{w: w, run: x, outgoing: outgoing{every: keepAlive}}
	lines.beat = func() error { return lines.write(map[string]any{"type": "keepalive"}) }
	// The headers go first: SDKs look for the end of a sandbox only if the answer has begun.
	if err := lines.send(w.FlushError); err != nil {
		x.Cancel()
		return err
	}
	stop := lines.keep()
	err = x.FollowIn(r.Context(), 0, f.RoomForEvents(w, largeFactor), func(e engine.Event) error {
		if endedWith(s, e) {
			return s.Ended()
		}
		wordFailure(f.Server, w, x, &e)
		return lines.event(e)
	})
	stop()
	if err != nil {
		x.Cancel()                  // as the client has left, nobody wants the rest
		panic(http.ErrAbortHandler) // an incomplete stream must not look complete
	}
	return nil
}

// dedented removes the indentation of the first line of code from all lines, as IPython does: E2B's users indent code
// in strings of theirs. It takes no memory for each line: hostile code has millions.
func dedented(code string) string {
	first := strings.TrimLeft(code, "\n")
	indent := first[:len(first)-len(strings.TrimLeft(first, " \t"))]
	if indent == "" {
		return code
	}
	var out strings.Builder
	out.Grow(len(code))
	for line := range strings.SplitAfterSeq(code, "\n") {
		out.WriteString(strings.TrimPrefix(line, indent))
	}
	return out.String()
}

// keepAlive is how often a silent stream sends a line, so that a lost client is noticed.
const keepAlive = 5 * time.Second

// lines writes the events of a run, a JSON object per line.
type lines struct {
	outgoing
	w      *httpd.Response
	run    *engine.Run
	begun  bool
	raised bool // an exception was sent
}

// line sends one line.
func (l *lines) line(v map[string]any) error { return l.send(func() error { return l.write(v) }) }

// write writes one line of the stream. The SDK for JavaScript decodes each piece of the stream by itself, so that no
// character may be cut: all text is ASCII. Long texts are encoded as they are written: code can make JSON of six times
// their bytes.
func (l *lines) write(v map[string]any) error {
	layout := largejson.NewLayout()
	layout.Map(v)
	err := layout.Around(v).EncodeTo(&asciiWriter{to: l.w})
	if err == nil {
		_, err = l.w.Write([]byte{'\n'})
	}
	if err == nil {
		err = l.w.FlushError()
	}
	return err
}

// asciiWriter passes JSON on, in which it escapes all other characters, and leaves out line ends: they are only between
// the parts of JSON.
type asciiWriter struct {
	to   io.Writer
	kept []byte // the start of a character
}

func (w *asciiWriter) Write(text []byte) (int, error) {
	const piece = 16 << 10
	var out []byte
	rest := text
	if len(w.kept) > 0 {
		rest = append(w.kept, text...)
	}
	for len(rest) > 0 {
		if w.kept = nil; !utf8.FullRune(rest) {
			w.kept = bytes.Clone(rest)
			rest = nil
		}
		c, size := utf8.DecodeRune(rest)
		rest = rest[size:]
		switch {
		case size == 0 || c == '\n' || c == '\r':
		case c < 0x80:
			out = append(out, byte(c))
		case c < 0x10000:
			out = appendEscape(out, c)
		default: // as two surrogates (RFC 8259, section 7)
			c -= 0x10000
			out = appendEscape(appendEscape(out, 0xd800+c>>10), 0xdc00+c&0x3ff)
		}
		if len(out) >= piece || len(rest) == 0 {
			if _, err := w.to.Write(out); err != nil {
				return 0, err
			}
			out = out[:0]
		}
	}
	return len(text), nil
}

func appendEscape(out []byte, c rune) []byte {
	const digits = "0123456789abcdef"
	return append(out, '\\', 'u', digits[c>>12&15], digits[c>>8&15], digits[c>>4&15], digits[c&15])
}

// event writes the line of an event.
func (l *lines) event(e engine.Event) error {
	if !l.begun && e.Kind != eventlog.Progress {
		l.begun = true
		count := max(1, l.run.Info().ContextRuns) // the first of a new server may not know it
		if err := l.line(map[string]any{"type": "number_of_executions", "execution_count": count}); err != nil {
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
	case eventlog.Exception:
		l.raised = true
		name := e.Exception.Name[strings.LastIndex(e.Exception.Name, ".")+1:] // of the class alone, as Jupyter has it
		return l.fail(name, e.Exception.Value, e.Exception.Traceback)
	case eventlog.Done:
		return l.end(e.Ended)
	}
	return nil
}

func (l *lines) fail(name, value, traceback string) error {
	return l.line(map[string]any{"type": "error", "name": name, "value": value, "traceback": traceback})
}

// end writes the lines at the end of a run.
func (l *lines) end(e *engine.Ended) (err error) {
	switch {
	case l.raised:
	case e.Failure != "":
		err = l.fail("SandboxError", e.Failure, "")
	case e.Status != sandbox.StatusSucceeded:
		err = l.fail("ExecutionError", string(e.Status), "")
	}
	if err != nil {
		return err
	}
	return l.line(map[string]any{"type": "end_of_execution"})
}
