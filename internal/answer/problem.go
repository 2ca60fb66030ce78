package answer

import (
	"cmp"
	"errors"
	"net/http"
	"strings"
	"syscall"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/wording"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// kindTable maps kinds to HTTP. Unsupported is a 4xx too: a 5xx would invite clients to repeat the request, which fails
// again.
var kindTable = map[sandbox.Kind]struct {
	status int
	title  string
}{
	sandbox.Internal:     {http.StatusInternalServerError, "Fumehood failed"},
	sandbox.Invalid:      {http.StatusBadRequest, "The request is wrong"},
	sandbox.NotFound:     {http.StatusNotFound, "Not found"},
	sandbox.Exists:       {http.StatusConflict, "The name is taken"},
	sandbox.Busy:         {http.StatusTooManyRequests, "The server is busy"},
	sandbox.Quota:        {http.StatusForbidden, "This exceeds the caller's quota"},
	sandbox.Unauthorized: {http.StatusUnauthorized, "A valid API key is needed"},
	sandbox.Unsupported:  {http.StatusUnprocessableEntity, "This server cannot do that"},
	sandbox.Unavailable:  {http.StatusServiceUnavailable, "Unavailable now"},
	sandbox.TooLarge:     {http.StatusRequestEntityTooLarge, "Something is over its limit"},
}

// defaultRetryAfter is that of a Busy or Unavailable problem without an estimate.
const defaultRetryAfter = time.Second

// longestText is the limit of one text in a problem, in bytes.
const longestText = 4 << 10

// NewProblem turns an error into a problem for a local face, which words the detail itself.
func NewProblem(f wording.Face, err error, detail string) api.Problem {
	kind := sandbox.KindOf(err)
	entry := kindTable[kind]
	p := api.Problem{Type: "urn:fumehood:problem:" + kind.String(), Title: entry.title, Status: entry.status,
		Kind: kind, Detail: brief(cmp.Or(detail, entry.title)), Hint: brief(f.Fix(err))}
	if fixes := sandbox.FixesOf(err); len(fixes) > 1 || sandbox.FixOf(err) == "" { // a single text has no facts
		for _, h := range fixes {
			p.Hints = append(p.Hints, api.NewHint(h, brief(f.Way(h))))
		}
	}
	if kind == sandbox.Invalid || kind == sandbox.TooLarge { // in other kinds, Op is the step that failed
		_, param := publicText(f, err)
		p.Param = brief(param)
	}
	if kind == sandbox.Busy || kind == sandbox.Unavailable {
		p.RetryAfter = max(sandbox.RetryAfterOf(err), defaultRetryAfter)
	}
	return p
}

// brief cuts a text that may quote the request.
func brief(text string) string {
	if len(text) <= longestText {
		return text
	}
	return strings.ToValidUTF8(text[:longestText], "") + "..."
}

// NewPublicProblem is NewProblem for HTTP clients. It hides an Internal error, whose text is only for the log.
func NewPublicProblem(err error, requestID string) api.Problem {
	detail, _ := publicText(wording.HTTP, err)
	if sandbox.KindOf(err) == sandbox.Internal {
		err, detail = nil, "Something went wrong on the server; its log has the details under this request_id."
	}
	p := NewProblem(wording.HTTP, err, detail)
	p.RequestID = requestID
	return p
}

// Detail returns the text of an error for the user of a face, without the steps that led to it. It is "" for an
// Internal error.
func Detail(f wording.Face, err error) string {
	detail, _ := publicText(f, err)
	return detail
}

// publicText gathers the texts for users: those of classified errors, and the kernel's fixed texts. Other errors may
// hold paths and ids of the host, so they stay in the log.
func publicText(f wording.Face, err error) (detail, op string) {
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
			op = f.Param(e.Op)
		}
		err = e.Err
	}
	var errno syscall.Errno
	if errors.As(err, &errno) && err.Error() != "" { // "": the message before has it
		parts = append(parts, errno.Error())
	}
	detail = strings.Join(parts, ": ")
	if op != "" && detail != "" {
		detail = op + ": " + detail
	}
	return detail, op
}
