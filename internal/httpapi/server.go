package httpapi

import (
	"strings"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// apiV1 is version 1 of the HTTP API on one server.
type apiV1 struct {
	*httpd.Server
	endpoints []endpoint
	probes    probe[engine.Capabilities]
	readiness probe[engine.Probed]
	document  document
}

// Add adds the routes of version 1. The server must not be serving yet.
func Add(server *httpd.Server) {
	a := &apiV1{Server: server}
	a.endpoints = a.table()
	for _, e := range a.endpoints {
		if strings.HasPrefix(e.path, "/v1/sandboxes") && !e.tail {
			e.handler = strict(e.params, e.handler)
		}
		server.Handle(httpd.Route{Method: e.method, Path: e.path, Handler: e.handler, Open: e.open, Tail: e.tail})
	}
}
