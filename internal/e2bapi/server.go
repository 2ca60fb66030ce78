package e2bapi

import (
	"bytes"
	"context"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"connectrpc.com/connect"

	"github.com/fumehood-dev/fumehood/internal/e2bapi/generated/filesystem/filesystemconnect"
	"github.com/fumehood-dev/fumehood/internal/e2bapi/generated/process/processconnect"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// face serves E2B's wire on one server.
type face struct {
	*httpd.Server
	tokens *Tokens
	files  *metadata

	searching sync.Mutex // guards made
	made      map[tokenFor]string
}

type handler = func(*httpd.Response, *http.Request) error

// Add adds E2B's wire to a server, which must not be serving yet. closeAll ends what outlives requests, and waits.
func Add(server *httpd.Server, tokens *Tokens) (closeAll func()) {
	watchers := newWatchers()
	f := &face{Server: server, tokens: tokens, files: newMetadata(server.Engine())}
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
		"POST /sandboxes/{id}/connect":    f.owned(httpd.Saving(f.connectSandbox)),
		"POST /v2/sandboxes/{id}/connect": f.owned(httpd.Saving(f.connectSandbox)),
		"POST /sandboxes/{id}/timeout":    f.owned(httpd.Saving(f.setTimeout)),
		"POST /sandboxes/{id}/pause":      f.owned(f.pause),
		"GET /sandboxes/{id}/metrics":     f.owned(f.metrics),
		"PUT /sandboxes/{id}/network":     f.owned(httpd.Saving(f.updateNetwork)),
		"GET /templates/aliases/{name}":   f.findTemplate,
	}, false)...)
	signed := routes(map[string]handler{
		"GET /files": f.signed(opRead, f.readFile), "POST /files": f.signed(opWrite, f.writeFile)}, true)
	for i := range signed {
		signed[i].AnySite = true // a signature proves more than the origin of a page
	}
	server.Handle(signed...)
	for _, path := range notServed {
		server.Handle(httpd.Route{Path: path, Handler: refuse, Fail: f.fail})
	}
	refuseFor := func(w *httpd.Response, r *http.Request, _ *engine.Sandbox) error { return refuse(w, r) }
	server.Handle(httpd.Route{Path: "/sandboxes/{id}/{path...}", Handler: f.owned(refuseFor), Fail: f.fail})
	server.AddSide(httpd.Side{Match: f.addressed(func(a address) bool { return a.port == portCode }), Fail: f.fail,
		Routes: routes(map[string]handler{
			"GET /health":                      f.inside(f.health),
			"POST /execute":                    f.inside(f.execute),
			"GET /contexts":                    f.insideAsPort(f.listContexts),
			"POST /contexts":                   f.insideAsPort(httpd.Saving(f.createContext)),
			"DELETE /contexts/{context}":       f.insideAsPort(httpd.Saving(f.inContext(f.deleteContext))),
			"POST /contexts/{context}/restart": f.insideAsPort(httpd.Saving(f.inContext(f.restartContext))),
		}, true)})
	// Without gzip, as readMessage unpacks messages, and to pack answers takes ten times as long as to make and send
	// them, for few bytes.
	options := []connect.HandlerOption{connect.WithReadMaxBytes(maxMessage), connect.WithInterceptors(problems{}),
		connect.WithCompression("gzip", nil, nil)}
	processPath, processes := processconnect.NewProcessHandler(processes{}, options...)
	filesPath, files := filesystemconnect.NewFilesystemHandler(filesystem{watchers: watchers}, options...)
	server.AddSide(httpd.Side{Match: f.addressed(func(a address) bool { return a.port == portEnvd }), Fail: f.fail,
		Routes: append(routes(map[string]handler{
			"GET /health":                      f.inside(f.health),
			"POST " + processPath + "{method}": f.inside(f.serve(processes)),
			"POST " + filesPath + "{method}":   f.inside(f.serve(files)),
		}, true), signed...)})
	toPort := func(anySite bool) []httpd.Route {
		return []httpd.Route{{Path: "/{path...}", Handler: f.passPort, Open: true, Tail: true, AnySite: anySite,
			Fail: f.fail}}
	}
	server.AddSide(httpd.Side{Match: f.addressed(func(a address) bool { return !a.broken && a.byHost }),
		Routes: toPort(true)})
	server.AddSide(httpd.Side{Match: f.addressed(func(a address) bool { return !a.broken }), Routes: toPort(false)})
	server.AddSide(httpd.Side{Match: f.addressed(func(address) bool { return true }), // none is of another API
		Routes: []httpd.Route{{Path: "/", Handler: badAddress, Open: true}}})
	return watchers.close
}

// notServed are the paths of E2B's API that this server does not serve. Their errors must have E2B's form.
var notServed = []string{"/sandboxes/{path...}", "/v2/sandboxes/{path...}", "/v2/templates/{path...}", "/v3/{path...}",
	"/templates", "/templates/{path...}", "/snapshots", "/snapshots/{path...}", "/volumes", "/volumes/{path...}",
	"/secrets", "/secrets/{path...}"}

// refuse answers a request for what this server does not serve.
func refuse(_ *httpd.Response, r *http.Request) error {
	return &sandbox.Error{Kind: sandbox.Unsupported, Msg: "this server does not serve " + r.Method + " " +
		strings.ToValidUTF8(r.URL.Path[:min(len(r.URL.Path), 200)], "?"),
		Fix: "docs/e2b.md lists what is served"}
}

var rpcErrors = connect.NewErrorWriter()

// serve passes a call on to a service. A message is read first, so that the memory of its decoded form is counted. The
// messages of a stream are read one by one, and the memory of one is counted.
func (f *face) serve(service http.Handler) inside {
	return func(w *httpd.Response, r *http.Request, s *engine.Sandbox) error {
		if name, _, ok := r.BasicAuth(); ok {
			if err := checkUser(name); err != nil {
				return rpcErrors.Write(w, r, connect.NewError(connect.CodeUnauthenticated, err))
			}
		}
		var err error
		if strings.HasSuffix(r.URL.Path, "/StreamInput") {
			_ = http.NewResponseController(w).SetReadDeadline(time.Time{}) // of a whole body; this one lasts
			r.Body = workingBody{r.Body, w, r.Header.Get("Content-Type")}
			err = f.Reserve(r.Context(), w, streamBytes)
		} else {
			err = f.readMessage(w, r)
		}
		if err != nil {
			return err
		}
		w.Steps(callSteps)
		in := &call{sandbox: s, server: f.Server, w: w, files: f.files}
		service.ServeHTTP(flusher{w}, r.WithContext(context.WithValue(r.Context(), called{}, in)))
		return nil
	}
}

// readMessage reads the body of a call into memory, and counts what its decoded form may take.
func (f *face) readMessage(w *httpd.Response, r *http.Request) error {
	const header = "Content-Encoding"
	encoding := r.Header[header] // connect refuses others than gzip
	r.Header.Del(header)
	body, err := f.StreamBody(w, r, maxMessage)
	if err != nil {
		return err
	}
	most := int64(maxMessage)
	if r.ContentLength >= 0 {
		most = min(most, r.ContentLength)
	}
	if err := f.Reserve(r.Context(), w, most); err != nil { // it may come slowly
		return err
	}
	message, err := io.ReadAll(body)
	if err != nil {
		return err
	}
	whole := slices.Equal(encoding, []string{"gzip"})
	if whole || streamed(r.Header) {
		err := f.Reserve(r.Context(), w, maxMessage-most)
		switch {
		case err != nil:
		case whole:
			encoding = nil
			message, err = unpackAll(w, message)
		default:
			message, err = unpack(w, r.Header, message)
		}
		if err != nil {
			return err
		}
	}
	if encoding != nil {
		r.Header[header] = encoding
	}
	size := int64(len(message))
	if err := f.Reserve(r.Context(), w, decodedBytes*size); err != nil {
		return err
	}
	work(w, r.Header.Get("Content-Type"), message)
	r.Body = io.NopCloser(bytes.NewReader(message))
	return nil
}

const (
	maxMessage   = 1 << 20 // bytes of one message of a client
	decodedBytes = 32      // that a byte of a message can become: an empty string of a list takes two bytes
	callSteps    = 40      // of work for a call, besides its bytes
	streamBytes  = 4 << 20 // of a message of a stream: as it came, decoded, and on its way
)

// protoWork is how often the bytes of a message of Protocol Buffers count as work: a field may have two bytes.
const protoWork = 4

// work counts a part of a message of a Content-Type as work for its client, before it is decoded.
func work(w *httpd.Response, contentType string, part []byte) {
	if !strings.Contains(contentType, "json") {
		w.Work(protoWork * len(part))
		return
	}
	w.Work(len(part))
	for _, begin := range []string{"{", "[", ","} {
		w.Values(bytes.Count(part, []byte(begin)))
	}
}

// workingBody is a body whose messages are decoded as they come.
type workingBody struct {
	io.ReadCloser
	w           *httpd.Response
	contentType string
}

func (b workingBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	work(b.w, b.contentType, p[:n])
	return n, err
}

// flusher lets connect flush each message.
type flusher struct{ *httpd.Response }

func (f flusher) Flush() { _ = f.FlushError() } // a lost client ends the context of its request

// Unwrap gives http.ResponseController the writer below.
func (f flusher) Unwrap() http.ResponseWriter { return f.Response }
