package answer

import (
	"errors"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// Problem is what Glovebox failed at, or a request that it cannot serve, in the form of RFC 9457.
type Problem struct {
	Type      string `json:"type" doc:"Names the kind; it is not an address."`
	Title     string `json:"title" doc:"The kind in words."`
	Status    int    `json:"status" doc:"The HTTP status."`
	Detail    string `json:"detail" doc:"What happened."`
	Kind      string `json:"kind" doc:"What the caller can do about it." enum:"internal,invalid,not_found,exists,busy,quota,unauthorized,unsupported,unavailable,too_large"`
	Hint      string `json:"hint,omitempty" doc:"What would help."`
	Param     string `json:"param,omitempty" doc:"The part of the request that is wrong."`
	RequestID string `json:"request_id,omitempty" doc:"The server's log has the details under this id."`

	RetryAfter time.Duration `json:"-"` // when to try again; 0 is unknown
}

// kindTable is the one table from kinds to HTTP. A request that can be fixed is a 4xx, also where it asks for what this host
// cannot do: sent again unchanged it fails again, and a 5xx would invite just that.
var kindTable = map[sandbox.Kind]struct {
	status int
	title  string
}{
	sandbox.Internal:     {http.StatusInternalServerError, "Glovebox failed"},
	sandbox.Invalid:      {http.StatusBadRequest, "The request is wrong"},
	sandbox.NotFound:     {http.StatusNotFound, "There is no such thing"},
	sandbox.Exists:       {http.StatusConflict, "The name is taken"},
	sandbox.Busy:         {http.StatusTooManyRequests, "There is no room for this now"},
	sandbox.Quota:        {http.StatusForbidden, "This is more than the caller may have"},
	sandbox.Unauthorized: {http.StatusUnauthorized, "A valid API key is needed"},
	sandbox.Unsupported:  {http.StatusUnprocessableEntity, "This server cannot do that"},
	sandbox.Unavailable:  {http.StatusServiceUnavailable, "This does not work now"},
	sandbox.TooLarge:     {http.StatusRequestEntityTooLarge, "Something is over its limit"},
}

// defaultRetryAfter goes with a Busy or Unavailable problem that does not know better.
const defaultRetryAfter = time.Second

// longestText is the most bytes of one text in a problem.
const longestText = 4 << 10

// NewProblem turns an error into a problem, for a face on the user's own machine that says by itself what happened and what would help.
func NewProblem(err error, detail, hint string) Problem {
	kind := sandbox.KindOf(err)
	entry := kindTable[kind]
	p := Problem{Type: "urn:glovebox:problem:" + kind.String(), Title: entry.title, Status: entry.status, Detail: detail, Kind: kind.String(), Hint: hint}
	if kind == sandbox.Invalid || kind == sandbox.TooLarge { // of other kinds it is the step that failed
		_, p.Param = publicText(err)
	}
	if p.Detail == "" {
		p.Detail = entry.title
	}
	for _, text := range []*string{&p.Detail, &p.Hint, &p.Param} { // they may quote the request, and problems have no room
		if len(*text) > longestText {
			*text = strings.ToValidUTF8((*text)[:longestText], "") + "..."
		}
	}
	if kind == sandbox.Busy || kind == sandbox.Unavailable {
		p.RetryAfter = max(sandbox.RetryAfterOf(err), defaultRetryAfter)
	}
	return p
}

// NewPublicProblem is NewProblem for strangers, in the words of HTTP. An Internal error never shows its text: it is for the log, beside the
// request id.
func NewPublicProblem(err error, requestID string) Problem {
	detail, hint := "Something went wrong on the server; its log has the details under this request_id.", ""
	if sandbox.KindOf(err) != sandbox.Internal {
		detail, _ = publicText(err)
		hint = HTTP.Fix(err)
	}
	p := NewProblem(err, detail, hint)
	p.RequestID = requestID
	return p
}

// publicText gathers the words that were written for users: those of classed errors, and the fixed texts of the kernel. The
// words of any other error may hold paths and ids of the host, so they stay in the log.
func publicText(err error) (detail, op string) {
	var parts []string
	for err != nil {
		var e *sandbox.Error
		if !errors.As(err, &e) || e.Kind == sandbox.Internal {
			break
		}
		if e.Msg != "" {
			parts = append(parts, e.Msg)
		}
		if op == "" {
			op = fieldOf(e.Op)
		}
		err = e.Err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) {
		parts = append(parts, errno.Error())
	}
	detail = strings.Join(parts, ": ")
	if op != "" && detail != "" {
		detail = op + ": " + detail
	}
	return detail, op
}
