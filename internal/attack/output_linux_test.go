package attack

import "testing"

// TestIsNamed finds a short name exactly.
func TestIsNamed(t *testing.T) {
	for out, want := range map[string]bool{"x\nnode vm\n": true, "/proc/sys/kernel/hostname vm\n\n": true,
		"node sandbox\n": false,
		"node vm2\n":     false, "/proc/mounts vm\n": false, "vm\n": false} {
		if isNamed(out, "vm") != want {
			t.Errorf("%q has the name: %v", out, !want)
		}
	}
}
