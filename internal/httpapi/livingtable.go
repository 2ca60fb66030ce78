package httpapi

import (
	"net/http"

	"github.com/fumehood-dev/fumehood/api"
)

const createDetail = "A living sandbox goes on after its runs: its files stay, and the variables of its contexts. It ends when it is removed, idle for " +
	"its idle time, or at its age; a later call then says why (404). {id} is its id or its name. It belongs to the API key that made it."

const insideDetail = "Runs code in a context, which keeps its variables for the next run, or a command or a file of the workspace in a process of its own. " +
	"Runs in one context wait for each other. The answer is that of POST /v1/run, with the values that the code showed in results. A client " +
	"that disconnects cancels the run.\n\n" +
	"With background, or Accept: text/event-stream, the run goes on without its client. A stream is the one of GET .../runs/{run}/events, and " +
	"the header Fumehood-Run-Id has the run's id."

const eventsDetail = "Server-sent events from the log of the run, with ids that count from 1: first those after Last-Event-ID, or else after, that are there, " +
	"then others as they come, until done. A client that was cut off goes on where it was. progress (data: Progress) while packages are installed, " +
	"then stdout and stderr (LoggedPiece), result (LoggedResult) and error (LoggedError) have time_ms since the run began. The last event is done (LoggedEnd), or problem (Failure) where " +
	"Fumehood failed. Logs of old runs are removed: 100 runs and 256 MiB are kept of a sandbox.\n\n" +
	"The server drops a client that takes nothing for 10 seconds, or falls that far behind 64 KiB a second. The run goes on."

const filesDetail = "The path is relative to /workspace; ?path= takes any, also an absolute one. A file is streamed, or a range of it; a folder answers " +
	"with its listing. Symbolic links are followed, inside of the sandbox."

const networkDetail = "What the network policy let through and what it refused, with totals. The server keeps the last 1000 attempts; they and the totals outlive it.\n\n" +
	"With after, the answer is a stream of events named attempt (NetworkAttempt), whose ids are those of the attempts."

const portDetail = "The request goes to what listens on that port inside of the sandbox, on 127.0.0.1, ::1 or all addresses: any method, path, query and body, " +
	"WebSocket and other upgrades, streams both ways. The sandbox needs no network for that. An answer with the header " + portHeader + " is the program's; " +
	"any other is this server's: 502 where nothing listens, or what listens does not speak HTTP/1.1.\n\n" +
	"The program gets no Authorization, X-API-Key or Cookie, and sees itself as localhost; X-Forwarded-Prefix says below which path it is. Its answers cannot act " +
	"for this server: cookies, CORS and the like are removed, a browser shows pages without scripts (Content-Security-Policy: sandbox), and a redirect " +
	"that leads out of the program is in " + locationHeader + " instead of Location. For an application in a browser use fumehood port-forward."

const tunnelDetail = "With Connection: Upgrade and Upgrade: tcp, the answer is 101, and then the connection carries the bytes of a TCP connection to the port. Each " +
	"side may end its half alone. A problem comes before the switch: 502 where nothing listens."

// loggedEvents are the types of data of events, for the document.
var loggedEvents = []any{LoggedPiece{}, LoggedResult{}, LoggedError{}, LoggedEnd{}, api.NetworkAttempt{}}

var (
	livingProblems = []int{400, 404, 409, 413, 422, 429, 500, 503}
	bodyProblems   = append([]int{408, 415}, livingProblems...)
	includeParam   = param{name: "include", doc: "Sections to include even if they have nothing to say.", list: true, one: "output,skipped_files,sandbox"}
	pathParam      = param{name: "path", doc: "The path, where it is not in the URL; absolute, or relative to /workspace.", example: "/workspace"}
)

// livingTable lists the API of living sandboxes.
func (a *apiV1) livingTable() []endpoint {
	const base = "/v1/sandboxes/{id}"
	return append([]endpoint{
		{method: "POST", path: "/v1/sandboxes", handler: a.createSandbox, name: "createSandbox", summary: "Make a living sandbox, or find the one of a name",
			detail: createDetail, request: CreateRequest{}, status: http.StatusCreated, answer: LivingSandbox{}, also: []outcome{{200, LivingSandbox{}}},
			problems: bodyProblems, example: object{"name": "work", "lifetime": object{"idle_s": 3600}, "metadata": object{"user": "u1"}}},
		{method: "GET", path: "/v1/sandboxes", handler: a.listSandboxes, name: "listSandboxes", summary: "Living sandboxes", answer: SandboxList{},
			problems: livingProblems, params: []param{{name: "label", doc: "NAME:VALUE of its metadata; all must fit.", list: true, example: "user:u1"},
				{name: "after", doc: "The id of the last one of the answer before."}, {name: "limit", doc: "The most sandboxes, up to 1000.", number: true}}},
		{method: "GET", path: base, handler: a.in(a.getSandbox), name: "getSandbox", summary: "One living sandbox", answer: LivingSandbox{},
			problems: livingProblems, params: []param{includeParam}},
		{method: "PATCH", path: base, handler: a.in(a.patchSandbox), name: "patchSandbox", summary: "Change lifetime, metadata and the network's rules",
			request: PatchRequest{}, answer: LivingSandbox{}, problems: bodyProblems, example: object{"lifetime": object{"idle_s": 7200}}},
		{method: "DELETE", path: base, handler: a.in(a.deleteSandbox), name: "deleteSandbox", summary: "End a sandbox; its files are lost",
			status: http.StatusNoContent, problems: livingProblems},
		{method: "GET", path: base + "/stats", handler: a.in(a.sandboxStats), name: "sandboxStats", summary: "What a sandbox uses", answer: SandboxUsage{},
			problems: livingProblems},
		{method: "GET", path: base + "/network", handler: a.in(a.network), name: "sandboxNetwork", summary: "What a sandbox tried to reach",
			detail: networkDetail, answer: api.NetworkReport{}, events: true, problems: livingProblems,
			params: []param{{name: "last", doc: "How many of the last attempts, up to 1000; 100 if absent.", number: true},
				{name: "after", doc: "Instead, attempts after the one of this id as events, as they come.", number: true}}},
		{method: "GET", path: base + "/ports/{port}", handler: a.in(a.tunnel), name: "tunnel", summary: "Open a TCP connection to a port in a sandbox", detail: tunnelDetail,
			status: http.StatusSwitchingProtocols, problems: append([]int{426, 502}, livingProblems...)},
		{path: base + "/ports/{port}/{path...}", handler: a.in(a.toPort), name: "toPort", summary: "Ask an HTTP server in a sandbox", detail: portDetail, tail: true,
			problems: append([]int{405, 502}, livingProblems...)},
	}, append(a.runTable(base), append(a.contextTable(base+"/contexts"), a.fileTable(base)...)...)...)
}

func (a *apiV1) runTable(base string) []endpoint {
	run := base + "/runs/{run}"
	return []endpoint{
		{method: "POST", path: base + "/run", handler: a.in(a.runInside), name: "runInside", summary: "Run code in a living sandbox", detail: insideDetail,
			request: InsideRequest{}, answer: api.Answer{}, also: []outcome{{202, Begun{}}}, events: true, problems: bodyProblems,
			example: object{"code": "x = 6*7; x", "context": "default"}},
		{method: "GET", path: base + "/runs", handler: a.in(a.listRuns), name: "listRuns", summary: "Runs of a sandbox", answer: RunList{}, problems: livingProblems},
		{method: "GET", path: run, handler: a.in(onRun(a.getRun)), name: "getRun", summary: "One run", answer: RunShown{}, problems: livingProblems},
		{method: "DELETE", path: run, handler: a.in(onRun(a.cancelRun)), name: "cancelRun", summary: "Cancel a run",
			status: http.StatusNoContent, problems: livingProblems},
		{method: "GET", path: run + "/events", handler: a.in(onRun(a.runEvents)), name: "runEvents", summary: "The events of a run, again and as they come",
			detail: eventsDetail, media: eventMedia, problems: livingProblems,
			params: []param{{name: "after", doc: "The id of the last event that was seen.", number: true},
				{name: "follow", doc: "0: end after the events that are there.", one: truth},
				{name: "Last-Event-ID", doc: "The same, as browsers send it; it counts before after.", header: true, number: true}}},
		{method: "POST", path: run + "/stdin", handler: a.in(onRun(a.sendStdin)), name: "sendStdin", summary: "Add to the stdin of an interactive run",
			rawBody: true, status: http.StatusNoContent, problems: bodyProblems, params: []param{{name: "eof", doc: "Close stdin after it.", one: truth}}},
		{method: "POST", path: run + "/signal", handler: a.in(onRun(a.signalRun)), name: "signalRun", summary: "Send a signal to a run",
			request: SignalRequest{}, status: http.StatusNoContent, problems: bodyProblems, example: object{"signal": "SIGINT"}},
	}
}

func (a *apiV1) contextTable(base string) []endpoint {
	one := base + "/{context}"
	return []endpoint{
		{method: "GET", path: base, handler: a.in(a.listContexts), name: "listContexts", summary: "Contexts of a sandbox", answer: ContextList{}, problems: livingProblems},
		{method: "POST", path: base, handler: a.in(a.createContext), name: "createContext", summary: "Start an interpreter that keeps its variables",
			request: ContextRequest{}, status: http.StatusCreated, answer: ContextShown{}, problems: bodyProblems, example: object{"name": "plots", "language": "python"}},
		{method: "DELETE", path: one, handler: a.in(inContext(a.deleteContext)), name: "deleteContext", summary: "End a context",
			status: http.StatusNoContent, problems: livingProblems},
		{method: "POST", path: one + "/restart", handler: a.in(inContext(a.restartContext)), name: "restartContext", summary: "Start the interpreter anew; variables are lost",
			status: http.StatusNoContent, problems: livingProblems},
		{method: "POST", path: one + "/interrupt", handler: a.in(inContext(a.interruptContext)), name: "interruptContext",
			summary: "Interrupt the code that runs; variables stay", status: http.StatusNoContent, problems: livingProblems},
		{method: "POST", path: one + "/complete", handler: a.in(inContext(a.complete)), name: "complete", summary: "Names that fit at a cursor",
			request: CompleteRequest{}, answer: Completion{}, problems: bodyProblems, example: object{"code": "import ma"}},
	}
}

func (a *apiV1) fileTable(base string) []endpoint {
	read := []param{{name: "list", doc: "Demand a listing.", one: truth}, {name: "stat", doc: "Describe the file instead.", one: truth},
		{name: "depth", doc: "Of a listing; 1 is the folder alone.", number: true}, {name: "limit", doc: "Of a listing: the most files, up to 10000.", number: true},
		{name: "Range", doc: "One range of bytes.", header: true}}
	write := []param{{name: "mode", doc: "Permission bits in octal; 0644 if absent.", example: "0644"}}
	remove := []param{{name: "recursive", doc: "A folder with all that is in it.", one: truth}}
	var table []endpoint
	for _, in := range []struct {
		path, name string
		params     []param
	}{{base + "/files/{path...}", "", nil}, {base + "/files", "By", []param{pathParam}}} {
		with := func(params []param) []param { return append(append([]param{}, in.params...), params...) }
		table = append(table,
			endpoint{method: "GET", path: in.path, handler: a.in(a.readFiles), name: "readFile" + in.name, summary: "Read a file, or list a folder", detail: filesDetail,
				answer: FileList{}, also: []outcome{{200, FileShown{}}}, rawAnswer: true, params: with(read), problems: append([]int{416}, livingProblems...)},
			endpoint{method: "PUT", path: in.path, handler: a.in(a.writeFile), name: "writeFile" + in.name,
				summary: "Write a file, whole or not at all, and the folders above it", rawBody: true, status: http.StatusCreated,
				also: []outcome{{204, nil}}, params: with(write), problems: bodyProblems},
			endpoint{method: "DELETE", path: in.path, handler: a.in(a.removeFile), name: "removeFile" + in.name, summary: "Remove a file or a folder",
				status: http.StatusNoContent, params: with(remove), problems: livingProblems})
	}
	return append(table,
		endpoint{method: "POST", path: base + "/move", handler: a.in(a.moveFile), name: "moveFile", summary: "Rename a file or a folder",
			request: MoveRequest{}, status: http.StatusNoContent, problems: bodyProblems, example: object{"from": "a.txt", "to": "b.txt"}},
		endpoint{method: "POST", path: base + "/mkdir", handler: a.in(a.makeFolder), name: "makeFolder", summary: "Make a folder",
			request: FolderRequest{}, status: http.StatusNoContent, problems: bodyProblems, example: object{"path": "data"}},
		endpoint{method: "POST", path: base + "/clean", handler: a.in(a.clean), name: "clean", summary: "Empty the workspace",
			request: CleanRequest{}, optional: true, status: http.StatusNoContent, problems: bodyProblems, example: object{}})
}
