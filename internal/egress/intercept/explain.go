package intercept

import (
	"context"
	"crypto/x509"
	"errors"
	"os"
	"strings"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
)

// Explain returns the reason for which a server did not answer, without addresses of the host.
func Explain(err error) string {
	var refused rules.Refusal
	var unknown x509.UnknownAuthorityError
	var wrong x509.HostnameError
	var invalid x509.CertificateInvalidError
	var failed syscall.Errno
	switch {
	case errors.As(err, &refused):
		return refused.Error()
	case strings.HasPrefix(err.Error(), "connection error: "), strings.HasPrefix(err.Error(), "http2: "):
		return "its answer is not valid HTTP/2, or has headers of more than 64 KiB" // net/http exports neither
	case errors.As(err, &unknown):
		return "this host does not trust the authority of its certificate"
	case errors.As(err, &wrong):
		return "its certificate is for another name"
	case errors.As(err, &invalid):
		return "its certificate is not valid"
	case errors.Is(err, context.Canceled):
		return "it was canceled"
	case errors.As(err, &failed):
		return failed.Error()
	case errors.Is(err, context.DeadlineExceeded), errors.Is(err, os.ErrDeadlineExceeded):
		return "it did not answer in time"
	}
	return "it cannot be reached"
}
