package native

import (
	"testing"

	"github.com/fumehood-dev/fumehood/internal/host/hostid"
)

// TestTerminals: code creates terminals only if the spec allows it. Where guest and code have one id, the
// kernel cannot distinguish them.
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
