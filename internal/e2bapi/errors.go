package e2bapi

import (
	"context"
	"errors"

	"connectrpc.com/connect"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// failed returns an error as one of a call.
func failed(err error) error {
	if err == nil {
		return nil
	}
	code := connect.CodeInternal
	switch sandbox.KindOf(err) {
	case sandbox.Invalid:
		code = connect.CodeInvalidArgument
	case sandbox.NotFound:
		code = connect.CodeNotFound
	case sandbox.Exists:
		code = connect.CodeAlreadyExists
	case sandbox.Busy, sandbox.Quota, sandbox.TooLarge:
		code = connect.CodeResourceExhausted
	case sandbox.Unsupported:
		code = connect.CodeUnimplemented
	case sandbox.Unavailable:
		code = connect.CodeUnavailable
	}
	if errors.Is(err, context.Canceled) {
		code = connect.CodeCanceled
	} else if errors.Is(err, context.DeadlineExceeded) {
		code = connect.CodeDeadlineExceeded
	}
	return connect.NewError(code, err)
}
