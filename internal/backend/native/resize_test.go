package native

import (
	"os"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestResize: the limits of memory and CPUs change while a sandbox lives; memory not below what it uses.
func TestResize(t *testing.T) {
	if len(accepted()) > 0 || os.Geteuid() != 0 {
		t.Skip("this host limits no memory for this user")
	}
	s := spec()
	s.Limits.MemoryBytes, s.Limits.DiskBytes = 128<<20, 100<<20
	box, err := open(t, "").Create(t.Context(), s)
	if err != nil {
		t.Fatal(err)
	}
	defer box.Close()
	const buffer = "head -c 200000000 /dev/zero | tail | wc -c"
	if o := run(t, box, "sh", "-c", buffer); strings.TrimSpace(o.stdout) == "200000000" {
		t.Fatalf("beyond the limit: %+v", o)
	}
	resize := func(l sandbox.Limits) error { return box.(sandbox.Resizer).Resize(t.Context(), l) }
	if err := resize(sandbox.Limits{MemoryBytes: 400 << 20, CPUMillis: 500}); err != nil {
		t.Fatal(err)
	}
	if o := run(t, box, "sh", "-c", buffer); strings.TrimSpace(o.stdout) != "200000000" {
		t.Errorf("within the new limit: %+v", o)
	}
	if o := run(t, box, "sh", "-c", "head -c 50000000 /dev/zero > /workspace/f"); o.exited.Code != 0 {
		t.Fatalf("%+v", o)
	}
	if err := resize(sandbox.Limits{MemoryBytes: 32 << 20}); sandbox.KindOf(err) != sandbox.Invalid {
		t.Errorf("below what it uses: %v", err)
	}
	if err := resize(sandbox.Limits{MemoryBytes: 150 << 20}); err != nil {
		t.Error(err)
	}
	if o := run(t, box, "sh", "-c", buffer); strings.TrimSpace(o.stdout) == "200000000" {
		t.Errorf("beyond the lowered limit: %+v", o)
	}
}
