package native

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/host/hostid"
)

// TestTerminals: the code opens terminals of its own only where the spec says so. Where guest and code are one id,
// nothing tells them apart.
func TestTerminals(t *testing.T) {
	b := open(t, "")
	for _, allowed := range []bool{false, true} {
		s := spec()
		s.Terminals = allowed
		box := create(t, b, s)
		if box.Effective().HostUID == hostid.Shared {
			t.Skip("SKIPPED, NOT TESTED: this user has one id")
		}
		if out := run(t, box, "/usr/bin/python3", "-c", "import os; os.openpty()"); (out.exited.Code == 0) != allowed {
			t.Errorf("allowed %v, and it says %q", allowed, out.stderr)
		}
	}
}
