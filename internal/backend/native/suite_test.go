package native

import (
	"context"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// TestSuite is the conformance suite of all backends.
func TestSuite(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) sandbox.Backend { return lenient{open(t, "")} })
}

// TestWalls is the half of the suite that needs real isolation. Its limits need control groups.
func TestWalls(t *testing.T) {
	if len(accepted()) > 0 {
		backendtest.Skip(t, "limits", "FUMEHOOD_TEST_WEAKER is set: nothing enforces the limits that this half is about")
	}
	backendtest.Walls(t, func(t *testing.T) sandbox.Backend { return open(t, "") })
}

// lenient waives, for every sandbox, what this host cannot enforce for an ordinary user.
type lenient struct{ *Backend }

func (l lenient) Create(ctx context.Context, spec sandbox.Spec) (sandbox.Box, error) {
	spec.AllowUnenforced = append(spec.AllowUnenforced, accepted()...)
	return l.Backend.Create(ctx, spec)
}

func (l lenient) Probe(ctx context.Context) (sandbox.Posture, error) {
	p, err := l.Backend.Probe(ctx)
	p.Ready = p.Ready || len(accepted()) > 0
	return p, err
}

// TestMatrix compares the seccomp filter in sandboxes with the policy.
func TestMatrix(t *testing.T) {
	backendtest.Matrix(t, func(t *testing.T) sandbox.Backend { return lenient{open(t, "")} })
}
