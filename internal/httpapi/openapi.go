package httpapi

import (
	"cmp"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// endpoint is one method of one path: its handler and its part of the OpenAPI document.
type endpoint struct {
	method, path string
	handler      func(*httpd.Response, *http.Request) error
	name         string // operationId
	summary      string
	detail       string
	request      any // a value of the body's type; nil is none
	answer       any // a value of the answer's type; nil is not JSON
	media        string
	example      any
	open         bool // needs no key
	problems     []int

	params    []param
	status    int       // of the answer; 0 is 200
	also      []outcome // other successes
	optional  bool      // the request may have no body
	rawBody   bool      // the body is bytes
	rawAnswer bool      // or the answer is bytes, or a range of them
	events    bool      // or the answer is a stream of events
	tail      bool      // what follows is passed on, with any method, query, body and answer; method is ""
}

// outcome is a success: its status, and a value of the answer's type.
type outcome struct {
	status int
	answer any
}

const eventMedia = "text/event-stream"

const runDetail = "Runs code or a command in a sandbox of its own and answers when it has ended. A failed program is a status in the " +
	"answer, with HTTP status 200. A problem means that the run did not complete, with one exception: if answers to slow readers fill " +
	"the server's memory, the run ended, but its answer is lost (429; 413 if the answer is too large ever to be sent).\n\n" +
	"With Accept: text/event-stream the answer is a stream of server-sent events, with ids that count from 1: started (data: Started), " +
	"progress (Progress) while packages are installed, then stdout and stderr (data: Piece) as output arrives, and last done (data: Done) or problem (data: Failure). time_ms in each " +
	"counts milliseconds since the run was accepted. An event named result is reserved. Comments keep a silent stream alive. The pieces " +
	"of a stream together are exactly its first bytes, up to the output limit: base64 if a piece has it, else text. The server holds " +
	"back an incomplete character until the rest arrives.\n\n" +
	"The server drops a client that takes nothing for 10 seconds, or falls that far behind 64 KiB a second. It cancels the run of a " +
	"client that is dropped or disconnects. A body that arrives more slowly is a 408.\n\n" +
	"The body must have the type application/json. Outside browsers, a form type or no type is taken as JSON too, for curl -d."

// table lists the API.
func (a *apiV1) table() []endpoint {
	body := []int{400, 408, 413, 415, 422, 429, 500, 503}
	return append([]endpoint{
		{method: "POST", path: "/v1/run", handler: a.run, name: "run", summary: "Run code once", detail: runDetail,
			request: RunRequest{}, answer: api.Answer{}, events: true, problems: body,
			example: object{"language": "python", "code": "print(6*7)", "limits": object{"timeout_s": 10}}},
		{method: "POST", path: "/execute", handler: a.execute, name: "execute", summary: "Run code once, with a small, older schema",
			request: ExecuteRequest{}, answer: ExecuteAnswer{}, problems: body, example: object{"code": "print(6*7)"}},
		{method: "GET", path: "/v1/capabilities", handler: a.capabilities, name: "capabilities",
			summary: "Backends, limits and features of this server", answer: Capabilities{}},
		{method: "GET", path: "/v1/languages", handler: a.languages, name: "languages", summary: "Languages, their versions and modules", answer: Languages{}},
		{method: "GET", path: "/healthz", handler: a.healthz, name: "healthz", summary: "Whether the process answers", answer: Health{}, open: true},
		{method: "GET", path: "/readyz", handler: a.readyz, name: "readyz", summary: "Whether the server admits runs and serves a default request", answer: Health{},
			open: true, problems: []int{503}},
		{method: "GET", path: "/metrics", handler: a.ShowMetrics, name: "metrics", summary: "Metrics for Prometheus", media: "text/plain"},
		{method: "GET", path: "/openapi.json", handler: a.openapi, name: "openapi", summary: "This document", media: "application/json"},
	}, a.livingTable()...)
}

// document is the OpenAPI document, made on first use.
type document struct {
	once sync.Once
	json *answer.JSON
}

func (a *apiV1) openapi(w *httpd.Response, _ *http.Request) error {
	a.document.once.Do(func() {
		a.document.json = answer.NewLayout().Around(describe(a.endpoints, a.Version()))
	})
	return a.WriteText(w, a.document.json)
}

// describe makes an OpenAPI 3.1 document of the endpoints and their types.
func describe(endpoints []endpoint, version string) object {
	components, types := object{}, map[string]reflect.Type{}
	requests, answers := &schemas{components, types, true}, &schemas{components, types, false}
	problem := answers.of(reflect.TypeFor[api.Problem]())
	for _, event := range append([]any{Started{}, Progress{}, Piece{}, Done{}, Failure{}}, loggedEvents...) {
		answers.of(reflect.TypeOf(event))
	}
	paths := object{}
	for _, e := range endpoints {
		path := strings.Replace(e.path, "...}", "}", 1)
		item, ok := paths[path].(object)
		if !ok {
			item = object{}
			paths[path] = item
		}
		if !e.tail {
			item[strings.ToLower(e.method)] = operation(e, requests, answers, problem)
			continue
		}
		for _, method := range []string{"Get", "Head", "Post", "Put", "Patch", "Delete", "Options"} {
			one := e
			one.name += method
			one.rawBody = strings.HasPrefix(method, "P")
			item[strings.ToLower(method)] = operation(one, requests, answers, problem)
		}
	}
	if version == "" {
		version = "unknown"
	}
	return object{
		"openapi": "3.1.0",
		"info": object{"title": "Fumehood", "version": version,
			"description": "Runs untrusted code in sandboxes, and returns its output, its files and its resource usage.",
			"license":     object{"name": "Apache-2.0", "identifier": "Apache-2.0"}},
		"servers":  []any{object{"url": "/"}},
		"security": []any{object{}, object{"bearer": []any{}}, object{"key": []any{}}},
		"paths":    paths,
		"components": object{"schemas": components, "securitySchemes": object{
			"bearer": object{"type": "http", "scheme": "bearer"},
			"key":    object{"type": "apiKey", "in": "header", "name": "X-API-Key"},
		}},
	}
}

func operation(e endpoint, requests, answers *schemas, problem object) object {
	op := object{"operationId": e.name, "summary": e.summary}
	if e.detail != "" {
		op["description"] = e.detail
	}
	if list := parameters(e); len(list) > 0 {
		op["parameters"] = list
	}
	if e.request != nil {
		op["requestBody"] = object{"required": !e.optional, "content": object{"application/json": object{
			"schema": requests.of(reflect.TypeOf(e.request)), "example": e.example}}}
	}
	if e.rawBody {
		op["requestBody"] = object{"required": !e.tail, "content": object{octets: object{}}}
	}
	statuses := map[int]bool{http.StatusForbidden: true, http.StatusMisdirectedRequest: true}
	for _, status := range e.problems {
		statuses[status] = true
	}
	if e.open {
		op["security"] = []any{}
	} else {
		statuses[http.StatusUnauthorized] = true
	}
	responses := successes(e, answers)
	for _, status := range slices.Sorted(maps.Keys(statuses)) {
		responses[strconv.Itoa(status)] = object{"description": http.StatusText(status), "content": object{httpd.ProblemType: object{"schema": problem}}}
	}
	op["responses"] = responses
	return op
}

// successes describes the answers that are no problem.
func successes(e endpoint, answers *schemas) object {
	if e.tail {
		return object{"default": object{"description": "What the program answered, with the header " + portHeader + "."}}
	}
	media := cmp.Or(e.media, "application/json")
	content := object{media: object{"schema": object{"type": "object"}}}
	switch {
	case e.answer != nil:
		content[media] = object{"schema": answers.of(reflect.TypeOf(e.answer))}
	case strings.HasPrefix(media, "text/"):
		content[media] = object{"schema": object{"type": "string"}}
	}
	if e.events {
		content[eventMedia] = object{"schema": object{"type": "string", "description": "Server-sent events; see the description."}}
	}
	if e.rawAnswer {
		content[octets] = object{}
	}
	first := object{"description": "Success.", "content": content}
	if e.status != 0 && e.answer == nil {
		first = object{"description": "Success."}
	}
	responses := object{strconv.Itoa(cmp.Or(e.status, http.StatusOK)): first}
	for _, o := range e.also {
		if o.status == cmp.Or(e.status, http.StatusOK) {
			content[media] = object{"schema": object{"anyOf": []any{answers.of(reflect.TypeOf(e.answer)), answers.of(reflect.TypeOf(o.answer))}}}
			continue
		}
		other := object{"description": "Success."}
		if o.answer != nil {
			other["content"] = object{"application/json": object{"schema": answers.of(reflect.TypeOf(o.answer))}}
		}
		responses[strconv.Itoa(o.status)] = other
	}
	if e.rawAnswer {
		responses["206"] = object{"description": "A range of the file.", "content": object{octets: object{}}}
	}
	return responses
}

// parameters describes the names in an endpoint's path, and its other parameters.
func parameters(e endpoint) []any {
	var list []any
	for part := range strings.SplitSeq(e.path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			list = append(list, object{"name": strings.TrimRight(name, ".}"), "in": "path", "required": true, "schema": object{"type": "string", "minLength": 1}})
		}
	}
	for _, p := range e.params {
		schema := object{"type": "string"}
		switch {
		case p.number:
			schema = object{"type": "integer", "minimum": 0}
		case p.one != "":
			var values []any
			for value := range strings.SplitSeq(p.one, ",") {
				values = append(values, value)
			}
			schema["enum"] = values
		}
		if p.list {
			schema = object{"type": "array", "items": schema}
		}
		in := "query"
		if p.header {
			in = "header"
		}
		shown := object{"name": p.name, "in": in, "description": p.doc, "schema": schema}
		if p.example != "" && !p.list {
			shown["example"] = p.example
		}
		list = append(list, shown)
	}
	return list
}
