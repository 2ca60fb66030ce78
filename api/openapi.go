package api

import (
	_ "embed"
	"net/http"
	"slices"
)

// OpenAPI is the OpenAPI 3.1 document of the API, generated from Operations and the types of this package:
//
//	go test ./api -run TestOpenAPI -update
//
//go:embed openapi.json
var OpenAPI []byte

// Headers of the API.
const (
	HeaderRun      = "Fumehood-Run-Id"   // id of a run, in answers that are not JSON or come before its end
	HeaderPort     = "Fumehood-Port"     // the port; only in answers of a program in a sandbox
	HeaderEnv      = "Fumehood-Env"      // NAME=VALUE, percent-encoded: a variable of a terminal
	HeaderLocation = "Fumehood-Location" // where the program redirected the client, if that is outside of the program
)

// Media types of the API.
const (
	MediaJSON    = "application/json"
	MediaProblem = "application/problem+json" // RFC 9457
	MediaEvents  = "text/event-stream"
	MediaBytes   = "application/octet-stream"
	MediaTar     = "application/x-tar"
	MediaZip     = "application/zip"
)

// Operation is one method of one path.
type Operation struct {
	Name    string // operationId
	Method  string // "": any, with any query, body and answer
	Path    string
	Summary string
	Detail  string
	Open    bool // requires no key

	Params   []Param
	Body     any    // a value of the type of the JSON body; nil: none; MediaBytes: bytes
	Optional bool   // the body may be absent
	Example  string // of the body, as JSON

	Status   int       // of the answer; 0 is 200
	Answer   any       // a value of the type of the JSON answer; nil: none; a string: another media type
	Also     []Answers // other successes
	Problems []int
}

// Answers is a success of an operation: its status, and what Operation.Answer is for it.
type Answers struct {
	Status int
	Answer any
}

// Param is a parameter in the query or a header of an operation.
type Param struct {
	Name, Doc string
	Header    bool
	List      bool     // may be repeated
	Number    bool     // a number that is not negative; else text
	Enum      []string // the allowed values; nil is any
	Example   string
}

var (
	problems      = []int{400, 404, 409, 413, 422, 429, 500, 503}
	bodyProblems  = append([]int{408, 415}, problems...)
	boolean       = []string{"0", "1", "false", "true"}
	metadataParam = Param{Name: "metadata", Doc: "NAME:VALUE; all must match.", List: true, Example: "user:u1"}
	includeParam  = Param{Name: "include", Doc: "policy: return the policy even if it is enforced as requested.",
		List: true, Enum: []string{string(SectionPolicy)}}
)

const runDetail = `Runs code or a command in a fresh sandbox and answers when it has ended. A failed program is a
status in the answer, with HTTP status 200. A problem means that the run did not complete, with one exception: if
answers to slow readers fill the server's memory, the run ended, but its answer is lost (429; 413 if the answer is too
large ever to be sent).

With Accept: text/event-stream the answer is a stream of events, as of GET /v1/sandboxes/{id}/runs/{run}/events, but
it cannot be read again. The server cancels the run of a client that disconnects, takes nothing for 10 seconds, or
falls that far behind 64 KiB a second. A body that arrives more slowly is a 408.

The body must have the type application/json. Outside browsers, a form type or no type is accepted as JSON too, for
curl -d.`

const createDetail = `A living sandbox keeps its files, and its contexts their variables, between runs. It ends when
it is removed, when it was idle for its idle time, or at its maximum age; a later call then says why (404). {id} is
its id or its name. It belongs to the API key that created it. The key of an operator may also describe (GET, GET stats)
and end (DELETE) the sandboxes of others, by their ids.`

const insideDetail = `Runs code in a context, which keeps its variables for the next run, or a command or a file of
the workspace in its own process. Runs in one context wait for each other. A client that disconnects cancels the run.

With background, or Accept: text/event-stream, the run continues without its client. A stream is the one of GET
.../runs/{run}/events, and the header Fumehood-Run-Id has the run's id.`

const eventsDetail = `Server-sent events of the run, with ids that count from 1: first the recorded ones
after Last-Event-ID, or else after; then new ones as they occur, until done. A client that was cut off continues
where it was.

The events are started (data: Started), progress (Progress) while packages are installed, stdout and stderr
(OutputPiece), result (ResultEvent) and exception (ExceptionEvent), and call (CallEvent) and answered
(AnsweredEvent) of tools. The last one is done (Done), or problem
(ProblemEvent) if Fumehood failed. time_ms in each counts milliseconds since the run was accepted. Comments keep a
silent stream alive.

The server removes the events of old runs: it keeps 100 runs and 256 MiB of a sandbox. It drops a client that takes
nothing for 10 seconds, or falls that far behind 64 KiB a second. The run continues.`

const callDetail = `Answers the call that a call event reported, with a value or an error. The first answer counts:
another one is a 409, as is one that comes after the time of the call. It is a 404 once the run has ended.`

// stateLanguage is the language of a context named default: each language has one.
var stateLanguage = Param{Name: "language", Doc: "The language of the context named default. The default is python.",
	Example: "javascript"}

const stateDetail = `The document has variables as tagged JSON, of at most 20 MiB, and lists those that it
cannot carry, with the reason. It comes from the sandbox: treat it as hostile. An import answers with the names that it
set, and with those that it did not.`

const filesDetail = `The path is relative to /workspace; ?path= accepts any path, also an absolute one. A file is
streamed, or a range of it; a folder answers with its listing. Symbolic links are followed inside the sandbox.`

const networkDetail = `The attempts that the network policy allowed and refused, with totals. The server keeps the
last 1000 attempts. They and the totals survive a restart of the server.

With after, the answer is a stream of events named attempt (NetworkAttempt), whose ids are those of the attempts.`

const portDetail = `The request is passed to the program that listens on that port in the sandbox, on 127.0.0.1, ::1
or all addresses: any method, path, query and body, WebSocket, streams in both directions. The
sandbox needs no network for that. An answer with the header Fumehood-Port is the program's; any other is this
server's: 502 if nothing listens, or if the program does not speak HTTP/1.1.

The program receives no Authorization, X-API-Key or Cookie, and sees itself as localhost; X-Forwarded-Prefix has the
path before its own. Its answers cannot act for this server: cookies, CORS and the like are removed, a browser shows
pages without scripts (Content-Security-Policy: sandbox), and a redirect that leads out of the program is in
Fumehood-Location instead of Location. For an application in a browser use fumehood port-forward.`

const tunnelDetail = `With Connection: Upgrade and Upgrade: tcp, the answer is 101, and then the connection carries
the bytes of a TCP connection to the port. Each side may close its half. A problem comes before the switch: 502 if
nothing listens.`

const terminalDetail = `A WebSocket (RFC 6455) with the sub-protocol fumehood.terminal. Binary messages are what the
user types, at most 64 KiB each, and what the program writes. A text message of the client is a new size,
{"rows": 40, "columns": 120}. The last message of the server is a text: {"status", "exit_code", "signal"}, or
{"problem"}.

Each header Fumehood-Env gives the program a variable: NAME=VALUE, percent-encoded. TERM is xterm-256color by default.

The program has no time limit. It is canceled when the connection ends. Its run is among the runs of the sandbox. A
page in a browser cannot send headers: it offers the API key as one more sub-protocol, fumehood.key. and the key in
Base64 for URLs without padding. A problem comes before the switch of protocols.`

const sandboxPath = "/v1/sandboxes/{id}"

// Operations lists all operations of the API.
var Operations = append([]Operation{
	{Name: "run", Method: "POST", Path: "/v1/run", Summary: "Run code once", Detail: runDetail, Body: RunRequest{},
		Example: `{"language": "python", "code": "print(6*7)", "limits": {"timeout_s": 10}}`,
		Answer:  Answer{}, Also: []Answers{{200, MediaEvents}}, Problems: bodyProblems},
	{Name: "answerOnce", Method: "POST", Path: "/v1/runs/{run}/calls/{call}", Body: CallAnswer{},
		Summary: "Answer a call of a tool of a run in a fresh sandbox", Detail: callDetail,
		Example: `{"value": ["a", "b"]}`, Status: http.StatusNoContent, Problems: bodyProblems},
	{Name: "execute", Method: "POST", Path: "/execute", Summary: "Run code once, with a small, older schema",
		Body: ExecuteRequest{}, Example: `{"code": "print(6*7)"}`, Answer: ExecuteAnswer{}, Problems: bodyProblems},
	{Name: "capabilities", Method: "GET", Path: "/v1/capabilities",
		Summary: "Backends, limits and features of this server", Answer: Capabilities{}, Problems: []int{429}},
	{Name: "languages", Method: "GET", Path: "/v1/languages", Summary: "Languages, their versions and modules",
		Answer: Languages{}, Problems: problems, Params: []Param{{Name: "image", Example: "python:3.12-slim",
			Doc: "An image or template whose interpreters are asked, in place of those of the default root."}}},
	{Name: "healthz", Method: "GET", Path: "/healthz", Summary: "Whether the process answers", Open: true,
		Answer: Health{}},
	{Name: "readyz", Method: "GET", Path: "/readyz", Summary: "Whether the server serves a default request",
		Open: true, Answer: Health{}, Problems: []int{503}},
	{Name: "metrics", Method: "GET", Path: "/metrics", Summary: "Metrics for Prometheus", Answer: "text/plain",
		Problems: []int{429}},
	{Name: "openapi", Method: "GET", Path: "/openapi.json", Summary: "This document", Answer: MediaJSON,
		Problems: []int{429}},

	{Name: "createSandbox", Method: "POST", Path: "/v1/sandboxes", Detail: createDetail,
		Summary: "Create a living sandbox, or find the one of a name", Body: SandboxRequest{},
		Example: `{"name": "work", "lifetime": {"idle_s": 3600}, "metadata": {"user": "u1"}}`,
		Status:  http.StatusCreated, Answer: Sandbox{}, Also: []Answers{{200, Sandbox{}}},
		Problems: bodyProblems},
	{Name: "listSandboxes", Method: "GET", Path: "/v1/sandboxes", Summary: "Living sandboxes",
		Answer: SandboxList{}, Problems: problems, Params: []Param{
			metadataParam,
			{Name: "all", Doc: "1: those of all API keys. Only for keys of operators.", Enum: boolean},
			{Name: "after", Doc: "The id of the last sandbox of the previous answer."},
			{Name: "limit", Doc: "The most sandboxes, up to 1000.", Number: true}}},
	{Name: "getSandbox", Method: "GET", Path: sandboxPath, Summary: "One living sandbox", Params: []Param{includeParam},
		Answer: Sandbox{}, Problems: problems},
	{Name: "patchSandbox", Method: "PATCH", Path: sandboxPath, Summary: "Change lifetime, metadata and network rules",
		Body: SandboxPatch{}, Example: `{"lifetime": {"idle_s": 7200}}`, Answer: Sandbox{}, Problems: bodyProblems},
	{Name: "deleteSandbox", Method: "DELETE", Path: sandboxPath, Summary: "End a sandbox; its files are lost",
		Status: http.StatusNoContent, Problems: problems},
	{Name: "sandboxStats", Method: "GET", Path: sandboxPath + "/stats", Summary: "What a sandbox uses",
		Answer: SandboxUsage{}, Problems: problems},
	{Name: "sandboxNetwork", Method: "GET", Path: sandboxPath + "/network", Summary: "What a sandbox tried to reach",
		Detail: networkDetail, Answer: NetworkReport{}, Also: []Answers{{200,
			MediaEvents}}, Problems: problems, Params: []Param{
			{Name: "last", Doc: "The number of last attempts, up to 1000. The default is 100.", Number: true},
			{Name: "after", Doc: "Return the attempts after this id as events, as they occur.", Number: true}}},
	{Name: "tunnel", Method: "GET", Path: sandboxPath + "/ports/{port}",
		Summary: "Open a TCP connection to a port in a sandbox",
		Detail:  tunnelDetail, Status: http.StatusSwitchingProtocols, Problems: append([]int{426, 502}, problems...)},
	{Name: "terminal", Method: "GET", Path: sandboxPath + "/terminal", Summary: "Open a terminal in a sandbox",
		Detail: terminalDetail, Status: http.StatusSwitchingProtocols, Problems: append([]int{426}, problems...),
		Params: []Param{
			{Name: "command", Doc: "A word of the command. The default is a shell.", List: true, Example: "bash"},
			{Name: "dir", Doc: "Its working directory. The default is /workspace."},
			{Name: "rows", Doc: "Rows of the terminal. The default is 24.", Number: true},
			{Name: "columns", Doc: "Columns of the terminal. The default is 80.", Number: true}}},
	{Name: "toPort", Path: sandboxPath + "/ports/{port}/{path...}",
		Summary: "Send a request to an HTTP server in a sandbox",
		Detail:  portDetail, Problems: append([]int{405, 502}, problems...)},
}, slices.Concat(runOperations, contextOperations, fileOperations(), volumeOperations,
	storeOperations)...)

var storeOperations = []Operation{
	{Name: "listImages", Method: "GET", Path: "/v1/images", Summary: "Images and templates on this server",
		Detail: imagesDetail, Answer: ImageList{}, Problems: problems},
	{Name: "listPackages", Method: "GET", Path: "/v1/packages", Summary: "Installed packages, by layer",
		Detail: packagesDetail, Answer: PackageList{}, Problems: problems},
	{Name: "buildTemplate", Method: "POST", Path: "/v1/templates", Summary: "Build an image from a Dockerfile or steps",
		Detail: templateDetail, Body: TemplateRequest{},
		Example: `{"name": "bio", "steps": [{"from": "python:3.12-slim"}, {"run": "pip install biopython"}]}`,
		Answer:  Template{}, Also: []Answers{{200, MediaEvents}}, Problems: bodyProblems},
}

const imagesDetail = `The key of an operator, and a request to a server without keys, gets all. Another key gets the
images that its requests may name, without the templates of other keys; sandboxes lists only its own.`

const packagesDetail = `The key of an operator, and a request to a server without keys, gets all layers. Another key
gets those whose packages its living sandboxes have. Fumehood removes the least recently used layers when all are too
large.`

const templateDetail = `Requires a server with --templates. Runs and sandboxes name the template as their image. With
Accept: text/event-stream the answer has the log as events: progress for each step, stdout and stderr of its command,
and at the end done with the template, or problem. A build ends with its connection. A name that another key has built,
or that is not a template, is refused. The command start runs in every sandbox of the image, which is ready once its
check ready succeeds: a port, or a command.`

var volumeOperations = []Operation{
	{Name: "createVolume", Method: "POST", Path: "/v1/volumes", Summary: "Create a volume that outlives sandboxes",
		Body: VolumeRequest{}, Example: `{"name": "data", "size_mib": 2048}`, Status: http.StatusCreated,
		Answer: Volume{}, Problems: bodyProblems},
	{Name: "listVolumes", Method: "GET", Path: "/v1/volumes", Summary: "Volumes", Answer: VolumeList{},
		Problems: problems},
	{Name: "getVolume", Method: "GET", Path: "/v1/volumes/{name}", Summary: "One volume", Answer: Volume{},
		Problems: problems},
	{Name: "deleteVolume", Method: "DELETE", Path: "/v1/volumes/{name}",
		Summary: "Remove a volume that no sandbox uses; its files are lost", Status: http.StatusNoContent,
		Problems: problems},
}

var runOperations = []Operation{
	{Name: "runInside", Method: "POST", Path: sandboxPath + "/run", Summary: "Run code in a living sandbox",
		Detail: insideDetail,
		Body:   SandboxRunRequest{}, Example: `{"code": "x = 6*7; x", "context": "default"}`, Answer: Answer{},
		Also: []Answers{{202, Run{}}, {200, MediaEvents}}, Problems: bodyProblems},
	{Name: "listRuns", Method: "GET", Path: sandboxPath + "/runs", Summary: "Runs of a sandbox", Answer: RunList{},
		Problems: problems, Params: []Param{metadataParam}},
	{Name: "getRun", Method: "GET", Path: sandboxPath + "/runs/{run}", Summary: "One run", Answer: Run{},
		Problems: problems, Params: []Param{
			{Name: "text", Doc: "1: with what a model should see of it so far.", Enum: boolean}}},
	{Name: "cancelRun", Method: "DELETE", Path: sandboxPath + "/runs/{run}", Summary: "Cancel a run",
		Status: http.StatusNoContent, Problems: problems},
	{Name: "runEvents", Method: "GET", Path: sandboxPath + "/runs/{run}/events", Detail: eventsDetail,
		Summary: "The events of a run, again and as they occur", Answer: MediaEvents, Problems: problems,
		Params: []Param{
			{Name: "after", Doc: "The id of the last event that was seen.", Number: true},
			{Name: "follow", Doc: "0: end after the recorded events.", Enum: boolean},
			{Name: "Last-Event-ID", Doc: "The same, as browsers send it; it overrides after.", Header: true,
				Number: true}}},
	{Name: "sendStdin", Method: "POST", Path: sandboxPath + "/runs/{run}/stdin", Body: MediaBytes,
		Summary: "Append to the stdin of an interactive run", Status: http.StatusNoContent, Problems: bodyProblems,
		Params: []Param{{Name: "eof", Doc: "Close stdin afterwards.", Enum: boolean}}},
	{Name: "answerCall", Method: "POST", Path: sandboxPath + "/runs/{run}/calls/{call}", Body: CallAnswer{},
		Summary: "Answer a call of a tool", Detail: callDetail, Example: `{"value": ["a", "b"]}`,
		Status: http.StatusNoContent, Problems: bodyProblems},
	{Name: "signalRun", Method: "POST", Path: sandboxPath + "/runs/{run}/signal", Summary: "Send a signal to a run",
		Body: SignalRequest{}, Example: `{"signal": "SIGINT"}`, Status: http.StatusNoContent, Problems: bodyProblems},
	{Name: "resizeTerminal", Method: "POST", Path: sandboxPath + "/runs/{run}/terminal", Body: TerminalSize{},
		Summary: "Change the size of a run's terminal", Example: `{"rows": 50, "columns": 120}`,
		Status: http.StatusNoContent, Problems: bodyProblems},
}

var contextOperations = []Operation{
	{Name: "listContexts", Method: "GET", Path: sandboxPath + "/contexts", Summary: "Contexts of a sandbox",
		Answer: ContextList{}, Problems: problems},
	{Name: "createContext", Method: "POST", Path: sandboxPath + "/contexts", Body: ContextRequest{},
		Summary: "Start an interpreter that keeps its variables", Example: `{"name": "plots", "language": "python"}`,
		Status: http.StatusCreated, Answer: Context{}, Problems: bodyProblems},
	{Name: "deleteContext", Method: "DELETE", Path: sandboxPath + "/contexts/{context}", Summary: "End a context",
		Status: http.StatusNoContent, Problems: problems},
	{Name: "restartContext", Method: "POST", Path: sandboxPath + "/contexts/{context}/restart",
		Status:  http.StatusNoContent,
		Summary: "Restart the interpreter; variables are lost", Problems: problems},
	{Name: "interruptContext", Method: "POST", Path: sandboxPath + "/contexts/{context}/interrupt",
		Status:  http.StatusNoContent,
		Summary: "Interrupt the running code; variables stay", Problems: problems},
	{Name: "exportState", Method: "GET", Path: sandboxPath + "/contexts/{context}/state",
		Summary: "Variables of a context as a document", Detail: stateDetail, Answer: MediaJSON, Problems: problems,
		Params: []Param{
			{Name: "name", Doc: "A variable. The default is all.", List: true, Example: "x"}, stateLanguage}},
	{Name: "importState", Method: "PUT", Path: sandboxPath + "/contexts/{context}/state",
		Summary: "Set the variables of a document", Detail: stateDetail, Body: MediaBytes, Answer: MediaJSON,
		Problems: bodyProblems, Params: []Param{stateLanguage}},
	{Name: "complete", Method: "POST", Path: sandboxPath + "/contexts/{context}/complete",
		Summary: "Names that fit at a cursor",
		Body:    CompleteRequest{}, Example: `{"code": "import ma"}`, Answer: Completion{}, Problems: bodyProblems},
}

// fileOperations has each operation on a file twice: the path is in the URL, or in the query.
func fileOperations() (list []Operation) {
	for _, in := range []struct {
		path, suffix string
		params       []Param
	}{
		{sandboxPath + "/files/{path...}", "", nil},
		{sandboxPath + "/files", "By", []Param{
			{Name: "path", Doc: "The path: absolute, or relative to /workspace.", Example: "/workspace"}}},
	} {
		list = append(list,
			Operation{Name: "readFile" + in.suffix, Method: "GET", Path: in.path,
				Summary: "Read a file, or list a folder", Detail: filesDetail, Answer: FileList{},
				Problems: append([]int{416}, problems...),
				Also: []Answers{{200, FileInfo{}}, {200, MediaBytes}, {206, MediaBytes}, {200, MediaTar},
					{200, MediaZip}},
				Params: append([]Param{
					{Name: "list", Doc: "Require a listing.", Enum: boolean},
					{Name: "stat", Doc: "Describe the file instead.", Enum: boolean},
					{Name: "archive", Doc: "Return a folder as one archive.", Enum: []string{"tar", "zip"}},
					{Name: "depth", Doc: "Depth of a listing; 1 is only the folder.", Number: true},
					{Name: "limit", Doc: "The most files of a listing, up to 10000.", Number: true},
					{Name: "Range", Doc: "One range of bytes.", Header: true}}, in.params...)},
			Operation{Name: "writeFile" + in.suffix, Method: "PUT", Path: in.path, Body: MediaBytes,
				Summary: "Write a file atomically, and create its parent folders", Status: http.StatusCreated,
				Also: []Answers{{204, nil}, {200, Unpacked{}}}, Problems: bodyProblems, Params: append([]Param{
					{Name: "archive", Doc: "The body is an archive, to be unpacked into this folder.",
						Enum: []string{"tar", "zip"}},
					{Name: "mode", Doc: "Permission bits in octal. The default is 0644.", Example: "0644"}},
					in.params...)},
			Operation{Name: "removeFile" + in.suffix, Method: "DELETE", Path: in.path,
				Summary: "Remove a file or a folder", Status: http.StatusNoContent, Problems: problems,
				Params: append([]Param{
					{Name: "recursive", Doc: "Remove a folder with its content.", Enum: boolean}}, in.params...)})
	}
	return append(list,
		Operation{Name: "moveFile", Method: "POST", Path: sandboxPath + "/move", Summary: "Rename a file or a folder",
			Body: MoveRequest{}, Example: `{"from": "a.txt", "to": "b.txt"}`, Status: http.StatusNoContent,
			Problems: bodyProblems},
		Operation{Name: "makeFolder", Method: "POST", Path: sandboxPath + "/mkdir", Summary: "Create a folder",
			Body: FolderRequest{}, Example: `{"path": "data"}`, Status: http.StatusNoContent, Problems: bodyProblems},
		Operation{Name: "clean", Method: "POST", Path: sandboxPath + "/clean", Summary: "Empty the workspace",
			Body: CleanRequest{}, Optional: true, Example: `{}`, Status: http.StatusNoContent, Problems: bodyProblems})
}
