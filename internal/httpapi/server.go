package httpapi

import (
	"bytes"
	"net/http"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/internal/room"
)

// apiV1 is version 1 of the HTTP API on one server.
type apiV1 struct {
	*httpd.Server
	probes    probe[engine.Capabilities]
	readiness probe[engine.Probed]
	document  []byte // OpenAPI
	stores    Stores
	builds    *room.Room // of templates
}

type handler = func(*httpd.Response, *http.Request) error

// Add adds the operations of version 1. The server must not be serving yet.
func Add(server *httpd.Server, stores Stores) {
	a := &apiV1{Server: server, document: api.OpenAPI, stores: stores, builds: room.Halves(maxBuilds)}
	if version := server.Version(); version != "" {
		a.document = bytes.Replace(api.OpenAPI, []byte(`"version": "unknown"`),
			[]byte(`"version": `+strconv.Quote(version)), 1)
	}
	handlers := a.handlers()
	for _, o := range api.Operations {
		h := handlers[o.Name]
		if strings.HasPrefix(o.Path, "/v1/sandboxes") && o.Method != "" {
			h = strict(o.Params, h)
		}
		server.Handle(httpd.Route{Method: o.Method, Path: o.Path, Handler: h, Open: o.Open, Tail: o.Method == "",
			WebSocket: o.Name == "terminal"})
	}
}

// handlers returns the handler of each operation, by its name.
func (a *apiV1) handlers() map[string]handler {
	return map[string]handler{
		"buildTemplate": a.buildTemplate, "listImages": a.listImages, "listPackages": a.listPackages,

		"run": a.run, "answerOnce": a.answerOnce, "execute": a.execute,
		"capabilities": a.capabilities, "languages": a.languages,
		"healthz": a.healthz, "readyz": a.readyz, "metrics": a.ShowMetrics, "openapi": a.openapi,

		"createSandbox": a.createSandbox, "listSandboxes": a.listSandboxes, "getSandbox": a.inAny(a.getSandbox),
		"patchSandbox": a.in(httpd.Saving(withBody(a, a.patchSandbox))), "deleteSandbox": a.deleteSandbox,
		"sandboxStats": a.inAny(a.sandboxStats), "sandboxNetwork": a.in(a.network),
		"tunnel": a.in(a.tunnel), "toPort": a.in(a.toPort), "terminal": a.in(a.terminal),

		"runInside": a.in(a.runInside), "listRuns": a.in(a.listRuns), "getRun": a.in(onRun(a.getRun)),
		"cancelRun": a.in(onRun(a.cancelRun)), "runEvents": a.in(onRun(a.runEvents)),
		"sendStdin": a.in(onRun(a.sendStdin)), "signalRun": a.in(onRun(withBody(a, a.signalRun))),
		"resizeTerminal": a.in(onRun(withBody(a, a.resizeTerminal))),
		"answerCall":     a.in(onRun(withBody(a, a.answerCall))),

		"listContexts":     a.in(a.listContexts),
		"createContext":    a.in(httpd.Saving(withBody(a, a.createContext))),
		"deleteContext":    a.in(httpd.Saving(inContext(a.deleteContext))),
		"restartContext":   a.in(httpd.Saving(inContext(a.restartContext))),
		"interruptContext": a.in(inContext(a.interruptContext)), "complete": a.in(inContext(withBody(a, a.complete))),

		"exportState": a.in(defaultOf(a.exportState)), "importState": a.in(defaultOf(a.importState)),

		"readFile": a.in(a.readFiles), "writeFile": a.in(a.writeFile), "removeFile": a.in(a.removeFile),
		"readFileBy": a.in(a.readFiles), "writeFileBy": a.in(a.writeFile), "removeFileBy": a.in(a.removeFile),
		"moveFile": a.in(withBody(a, a.moveFile)), "makeFolder": a.in(withBody(a, a.makeFolder)),
		"clean": a.in(a.clean),

		"createVolume": a.createVolume, "listVolumes": a.listVolumes, "getVolume": a.getVolume,
		"deleteVolume": a.deleteVolume,
	}
}

func (a *apiV1) openapi(w *httpd.Response, _ *http.Request) error {
	w.Header().Set("Content-Type", api.MediaJSON)
	w.Header().Set("Content-Length", strconv.Itoa(len(a.document)))
	_, _ = w.Write(a.document) // an error is of the client's connection
	return nil
}
