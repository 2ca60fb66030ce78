package httpd

import (
	"encoding/json"
	"errors"
	"math"
	"net/http"
	"strconv"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/answer"
	"github.com/fumehood-dev/fumehood/sandbox"
)

func writeProblem(w http.ResponseWriter, p api.Problem) {
	body, err := json.Marshal(p)
	if err != nil {
		panic("httpd: " + err.Error()) // strings and numbers always have a JSON form
	}
	h := w.Header()
	h.Set("Content-Type", api.MediaProblem)
	SetRetryAfter(h, p)
	if p.Status == http.StatusUnauthorized {
		h.Set("WWW-Authenticate", `Bearer realm="fumehood"`)
	}
	w.WriteHeader(p.Status)
	w.Write(append(body, '\n'))
}

// SetRetryAfter sets the header of a problem that may have gone after some seconds.
func SetRetryAfter(h http.Header, p api.Problem) {
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(int(math.Ceil(p.RetryAfter.Seconds()))))
	}
}

// refusal is an error of HTTP itself, with a status that no Kind has.
type refusal struct {
	status int
	err    *sandbox.Error
	cause  error // for errors.Is; its text is not shown
}

func (r *refusal) Error() string { return r.err.Error() }
func (r *refusal) Unwrap() error { return r.err }

// Is reports whether the cause is target.
func (r *refusal) Is(target error) bool { return errors.Is(r.cause, target) }

// Refuse returns an error of HTTP itself, with a status that no Kind has.
func Refuse(status int, kind sandbox.Kind, msg, fix string) error {
	return &refusal{status: status, err: &sandbox.Error{Kind: kind, Msg: msg, Fix: fix}}
}

// problemOf turns an error into a problem, with the status of a refusal.
func problemOf(err error, requestID string) api.Problem {
	p := answer.NewPublicProblem(err, requestID)
	var r *refusal
	if errors.As(err, &r) {
		p.Status, p.Title = r.status, http.StatusText(r.status)
	}
	return p
}

// Problem turns an error into a problem for the client, and logs the details.
func (s *Server) Problem(w *Response, err error) api.Problem {
	p := problemOf(err, w.ID)
	if sandbox.KindOf(err) == sandbox.Internal {
		s.log.Error("a request failed", "request_id", w.ID, "route", w.route, "error", err.Error())
	}
	return p
}
