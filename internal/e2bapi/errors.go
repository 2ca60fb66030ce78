package e2bapi

import (
	"context"
	"errors"
	"strconv"

	"connectrpc.com/connect"

	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// problem is an error in E2B's form. Its SDKs need the first two fields.
type problem struct {
	Code      int    `json:"code"`
	Message   string `json:"message"`
	ErrorCode string `json:"error_code,omitempty"`
}

// fail answers with an error in E2B's form. Should-Retry tells SDKs to repeat requests, three times, or not to: without
// it they repeat all with 429, 502, 503 and 504.
func (f *face) fail(w *httpd.Response, err error) {
	p := f.Problem(w, err)
	out := problem{Code: p.Status, Message: sentence(p.Detail, p.Hint)}
	switch {
	case errors.Is(err, errMismatch):
		out.ErrorCode = "idempotency_request_mismatch"
	case sandbox.KindOf(err) == sandbox.Busy:
		out.ErrorCode = "sandbox_capacity_unavailable"
	}
	httpd.SetRetryAfter(w.Header(), p)
	w.Header().Set("Should-Retry", strconv.FormatBool(p.RetryAfter > 0))
	_ = f.WriteStatus(w, p.Status, out)
}

// codeOf returns the code of an error of a call.
func codeOf(err error) connect.Code {
	switch {
	case errors.Is(err, context.Canceled):
		return connect.CodeCanceled
	case errors.Is(err, context.DeadlineExceeded):
		return connect.CodeDeadlineExceeded
	}
	switch sandbox.KindOf(err) {
	case sandbox.Invalid:
		return connect.CodeInvalidArgument
	case sandbox.NotFound:
		return connect.CodeNotFound
	case sandbox.Exists:
		return connect.CodeAlreadyExists
	case sandbox.Busy, sandbox.Quota, sandbox.TooLarge:
		return connect.CodeResourceExhausted
	case sandbox.Unsupported:
		return connect.CodeUnimplemented
	case sandbox.Unavailable:
		return connect.CodeUnavailable
	}
	return connect.CodeInternal
}

// problems is the interceptor that turns errors of handlers into errors of connect, with the words of a problem. The
// log has the details of Internal ones.
type problems struct{}

func (problems) WrapUnary(next connect.UnaryFunc) connect.UnaryFunc {
	return func(ctx context.Context, r connect.AnyRequest) (connect.AnyResponse, error) {
		answer, err := next(ctx, r)
		return answer, worded(ctx, err)
	}
}

func (problems) WrapStreamingHandler(next connect.StreamingHandlerFunc) connect.StreamingHandlerFunc {
	return func(ctx context.Context, stream connect.StreamingHandlerConn) error {
		return worded(ctx, next(ctx, stream))
	}
}

// WrapStreamingClient implements connect.Interceptor. There are no clients here.
func (problems) WrapStreamingClient(next connect.StreamingClientFunc) connect.StreamingClientFunc {
	return next
}

// worded returns an error of connect unchanged, and any other as one.
func worded(ctx context.Context, err error) error {
	var own *connect.Error
	if err == nil || errors.As(err, &own) {
		return err
	}
	code := codeOf(err)
	if code == connect.CodeCanceled || code == connect.CodeDeadlineExceeded {
		return connect.NewError(code, errors.New("the call ended early"))
	}
	in := callIn(ctx)
	return connect.NewError(code, errors.New(words(in.server, in.w, err)))
}

// words returns the text of an error for the client. The log has the details of an Internal one.
func words(server *httpd.Server, w *httpd.Response, err error) string {
	p := server.Problem(w, err)
	return sentence(p.Detail, p.Hint)
}

// sentence returns the text of a problem with its hint, which may be "".
func sentence(detail, hint string) string {
	if hint == "" {
		return detail
	}
	return detail + " (" + hint + ")"
}

// wordFailure replaces the text of a failure in the last event of a run, which is for the log, by that for the client.
func wordFailure(server *httpd.Server, w *httpd.Response, x *engine.Run, e *engine.Event) {
	if e.Ended != nil && e.Ended.Failure != "" {
		e.Ended.Failure = words(server, w, x.Failure())
	}
}
