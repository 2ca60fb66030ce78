package native

import (
	"testing"

	"github.com/glovebox-dev/glovebox/internal/backend/backendtest"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestSuite is the conformance suite of all backends.
func TestSuite(t *testing.T) {
	backendtest.Run(t, func(t *testing.T) sandbox.Backend { return open(t, "") })
}

// TestWalls is the half of the suite that only real walls pass. Its limits need control groups.
func TestWalls(t *testing.T) {
	if len(accepted()) > 0 {
		t.Skip("GLOVEBOX_TEST_WEAKER is set: nothing enforces the limits that this half is about")
	}
	backendtest.Walls(t, func(t *testing.T) sandbox.Backend { return open(t, "") })
}
