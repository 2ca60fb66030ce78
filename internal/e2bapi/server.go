package e2bapi

import (
	"bytes"
	"context"
	"encoding/json"
	"io"
	"math"
	"net/http"
	"strconv"
	"strings"

	"connectrpc.com/connect"

	"github.com/fumehood-dev/fumehood/internal/e2bapi/generated/filesystem/filesystemconnect"
	"github.com/fumehood-dev/fumehood/internal/e2bapi/generated/process/processconnect"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// Headers by which a client names a sandbox and one of its services.
const (
	headerSandbox = "E2b-Sandbox-Id"
	headerPort    = "E2b-Sandbox-Port"

	portEnvd = "49983"
	portCode = "49999"
)

// face serves E2B's wire on one server.
type face struct {
	*httpd.Server
	tokens *Tokens
}

type handler = func(*httpd.Response, *http.Request) error

// Add adds E2B's wire to a server, which must not be serving yet. closeAll ends what outlives requests, and waits.
func Add(server *httpd.Server, tokens *Tokens) (closeAll func()) {
	watchers := newWatchers()
	f := &face{Server: server, tokens: tokens}
	routes := func(handlers map[string]handler, open bool) (list []httpd.Route) {
		for pattern, h := range handlers {
			method, path, _ := strings.Cut(pattern, " ")
			list = append(list, httpd.Route{Method: method, Path: path, Handler: h, Open: open, Fail: f.fail})
		}
		return list
	}
	server.Handle(routes(map[string]handler{
		"POST /sandboxes":                 f.createSandbox,
		"POST /v2/sandboxes":              f.createSandbox,
		"GET /sandboxes":                  f.listSandboxes,
		"GET /v2/sandboxes":               f.listSandboxes,
		"GET /sandboxes/{id}":             f.owned(f.getSandbox),
		"DELETE /sandboxes/{id}":          f.deleteSandbox,
		"POST /sandboxes/{id}/connect":    f.owned(f.connectSandbox),
		"POST /v2/sandboxes/{id}/connect": f.owned(f.connectSandbox),
		"POST /sandboxes/{id}/timeout":    f.owned(f.setTimeout),
		"POST /sandboxes/{id}/pause":      f.owned(f.pause),
		"GET /sandboxes/{id}/metrics":     f.owned(f.metrics),
	}, false)...)
	server.AddSide(httpd.Side{Match: serviceOf(portCode), Routes: routes(map[string]handler{
		"GET /health":                      f.inside(f.health),
		"POST /execute":                    f.inside(f.execute),
		"GET /contexts":                    f.inside(f.listContexts),
		"POST /contexts":                   f.inside(f.createContext),
		"DELETE /contexts/{context}":       f.inside(inContext(f.deleteContext)),
		"POST /contexts/{context}/restart": f.inside(inContext(f.restartContext)),
	}, true)})
	options := []connect.HandlerOption{connect.WithReadMaxBytes(maxMessage), connect.WithInterceptors(problems{})}
	processPath, processes := processconnect.NewProcessHandler(processes{}, options...)
	filesPath, files := filesystemconnect.NewFilesystemHandler(filesystem{watchers: watchers}, options...)
	server.AddSide(httpd.Side{Match: serviceOf(portEnvd), Routes: routes(map[string]handler{
		"GET /health":                      f.inside(f.health),
		"GET /files":                       f.inside(f.readFile),
		"POST /files":                      f.inside(f.writeFile),
		"POST " + processPath + "{method}": f.inside(f.serve(processes)),
		"POST " + filesPath + "{method}":   f.inside(f.serve(files)),
	}, true)})
	server.AddSide(httpd.Side{Match: other})
	return watchers.close
}

// other is the rest of the requests for a sandbox: none may be taken for one of another API.
func other(r *http.Request) bool { return r.Header.Get(headerSandbox) != "" }

// serve passes a call on to a service. A message is read first, so that the memory of its decoded form is counted; the
// messages of a stream are read one by one, in the room of one.
func (f *face) serve(service http.Handler) inside {
	return func(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
		var err error
		if strings.HasSuffix(r.URL.Path, "/StreamInput") {
			err = f.Reserve(r.Context(), w, streamBytes)
		} else {
			err = f.readMessage(w, r)
		}
		if err != nil {
			return err
		}
		in := &call{sandbox: s, server: f.Server, w: w}
		service.ServeHTTP(flusher{w}, r.WithContext(context.WithValue(r.Context(), called{}, in)))
		return nil
	}
}

// readMessage reads the body of a call into memory, and counts what its decoded form may take.
func (f *face) readMessage(w *httpd.Response, r *http.Request) error {
	const header = "Content-Encoding"
	encoding := r.Header[header] // connect unpacks the message, within its limit
	r.Header.Del(header)
	body, err := f.StreamBody(w, r, maxMessage)
	if err != nil {
		return err
	}
	message, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	size := int64(len(message))
	if encoding != nil {
		r.Header[header] = encoding
		size = min(size*maxDeflate, maxMessage)
	}
	if err := f.Reserve(r.Context(), w, decodedBytes*size); err != nil {
		return err
	}
	r.Body = io.NopCloser(bytes.NewReader(message))
	return nil
}

const (
	maxDeflate   = 1032    // bytes that one byte of gzip can become
	maxMessage   = 1 << 20 // bytes of one message of a client
	decodedBytes = 32      // that a byte of a message can become: an empty string of a list takes two bytes
	streamBytes  = 4 << 20 // of a message of a stream: as it came, unpacked, decoded, and on its way
)

// serviceOf matches requests to a service of a sandbox.
func serviceOf(port string) func(*http.Request) bool {
	return func(r *http.Request) bool {
		return r.Header.Get(headerSandbox) != "" && r.Header.Get(headerPort) == port
	}
}

// flusher lets connect flush each message.
type flusher struct{ *httpd.Response }

func (f flusher) Flush() { _ = f.FlushError() } // a lost client ends the context of its request

// Unwrap gives http.ResponseController the writer below.
func (f flusher) Unwrap() http.ResponseWriter { return f.Response }

// problem is an error in E2B's form. Its SDKs need both fields.
type problem struct {
	Code    int    `json:"code"`
	Message string `json:"message"`
}

// fail answers with an error in E2B's form.
func (f *face) fail(w *httpd.Response, err error) {
	p := f.Problem(w, err)
	if p.RetryAfter > 0 {
		w.Header().Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
	_ = writeJSON(w, p.Status, problem{p.Status, sentence(p.Detail, p.Hint)})
}

func writeJSON(w http.ResponseWriter, status int, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_, _ = w.Write(text) // an error is of the client's connection
	return nil
}
