package httpapi

import (
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"net/http"
	"regexp"
	"strconv"
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
	Fix       string `json:"fix,omitempty" doc:"What would help."`
	Op        string `json:"op,omitempty" doc:"The step that failed, or the field that is wrong."`
	RequestID string `json:"request_id,omitzero" doc:"Stands in the server's log beside what is not told here."`

	retryAfter time.Duration
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
	sandbox.TooLarge:     {http.StatusRequestEntityTooLarge, "Something is over its bound"},
}

// defaultRetryAfter is told with a Busy or Unavailable problem that does not know better.
const defaultRetryAfter = time.Second

// longestText is the most bytes of one text in a problem.
const longestText = 4 << 10

// newProblem turns an error into a problem. An Internal error never shows its text: it is for the log, beside the request id.
func newProblem(err error, requestID string) Problem {
	kind := sandbox.KindOf(err)
	entry := kindTable[kind]
	p := Problem{
		Type: "urn:glovebox:problem:" + kind.String(), Title: entry.title, Status: entry.status,
		Kind: kind.String(), RequestID: requestID,
	}
	if kind == sandbox.Internal {
		p.Detail = "Something went wrong on the server; its log has the details under this request_id."
		return p
	}
	p.Detail, p.Op = publicText(err)
	p.Fix = inFields(sandbox.FixOf(err))
	if lacks := sandbox.UnenforcedOf(err); len(lacks) > 0 {
		p.Fix += fmt.Sprintf(`; or go without: "allow_unenforced": [%s]`, quoted(lacks))
	}
	if p.Detail == "" {
		p.Detail = entry.title
	}
	for _, text := range []*string{&p.Detail, &p.Fix, &p.Op} { // they may quote the request, and problems have no room
		if len(*text) > longestText {
			*text = strings.ToValidUTF8((*text)[:longestText], "") + "..."
		}
	}
	if kind == sandbox.Busy || kind == sandbox.Unavailable {
		p.retryAfter = max(sandbox.RetryAfterOf(err), defaultRetryAfter)
	}
	return p
}

// What a fix says in flags, in the words of a request. A root and a command line are the operator's.
var (
	flagsOfOperator = strings.NewReplacer(", or give a directory with --root", "", ", or give --root a directory that holds it", "",
		"leave --allow-command out", "ask for no allowed commands", "send files along with --file", `send files along in "files"`)
	flagsOfFields = regexp.MustCompile(`(?:glovebox run )?--(image|backend) ([A-Za-z][A-Za-z0-9._:/@-]*)`)
)

func inFields(fix string) string {
	return flagsOfFields.ReplaceAllString(flagsOfOperator.Replace(fix), `"$1": "$2"`)
}

func quoted(names []sandbox.LimitName) string {
	words := make([]string, len(names))
	for i, name := range names {
		words[i] = strconv.Quote(string(name))
	}
	return strings.Join(words, ", ")
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

// problemType is the media type of RFC 9457.
const problemType = "application/problem+json"

func writeProblem(w http.ResponseWriter, p Problem) {
	body, err := json.Marshal(p)
	if err != nil {
		panic("httpapi: " + err.Error()) // strings and numbers always have a JSON form
	}
	h := w.Header()
	h.Set("Content-Type", problemType)
	if p.retryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.retryAfter.Seconds()))))
	}
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="glovebox"`)
	}
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// refusal is an error of HTTP itself, whose status no kind of Glovebox stands for.
type refusal struct {
	status int
	err    *sandbox.Error
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

func refuse(status int, kind sandbox.Kind, msg, fix string) error {
	return &refusal{status, &sandbox.Error{Kind: kind, Msg: msg, Fix: fix}}
}

// problemOf is newProblem, with the status of a refusal.
func problemOf(err error, requestID string) Problem {
	p := newProblem(err, requestID)
	var r *refusal
	if errors.As(err, &r) {
		p.Status, p.Title = r.status, http.StatusText(r.status)
	}
	return p
}

// NewProblem is the problem of an error for a face that says in its own words what happened and what would help. It is of no request.
func NewProblem(err error, detail, hint string) Problem {
	p := problemOf(err, "")
	p.Detail, p.Fix = detail, hint
	return p
}
