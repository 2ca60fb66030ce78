package native

import (
	"slices"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestPreflight: Preflight refuses exactly what Create refuses.
func TestPreflight(t *testing.T) {
	b := open(t, "")
	s := spec()
	if _, err := b.Preflight(s); err != nil {
		t.Errorf("refused: %v", err)
	}
	s.Workspace, s.Named = t.TempDir(), []sandbox.LimitName{sandbox.LimitDisk}
	lacking, err := b.Preflight(s)
	if _, created := b.Create(t.Context(), s); sandbox.KindOf(err) != sandbox.Unsupported ||
		err.Error() != created.Error() {
		t.Errorf("preflighted %v, was %v", err, created)
	}
	if !slices.Contains(lacking, sandbox.LimitDisk) {
		t.Errorf("lacking are %v", lacking)
	}
}

// TestEndedConnections: the kernel keeps few TCP connections of a sandbox that have ended (TIME_WAIT), as no control
// group counts them.
func TestEndedConnections(t *testing.T) {
	box := create(t, open(t, ""), spec())
	const name = "/proc/sys/net/ipv4/tcp_max_tw_buckets"
	if got := run(t, box, "/bin/cat", name); got.stdout != "4096\n" {
		t.Errorf("%s is %q: %s", name, got.stdout, got.stderr)
	}
}
