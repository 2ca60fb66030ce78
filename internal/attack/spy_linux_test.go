package attack

import (
	"slices"
	"testing"
)

// TestHostUsers finds the code's possible host ids in maps of single ids and ranges.
func TestHostUsers(t *testing.T) {
	for uidMap, want := range map[string][]string{
		"0 700000 1\n1000 700001 1\n":    {"700000", "700001"}, // native and gvisor
		"0 0 4294967295\n":               {"1000"},             // docker
		"0 1001 1\n1 100000 65536\n":     {"100999"},           // podman of the user 1001
		"1000 1001 1\n":                  {"1001"},             // the user's own
		"0 100000 1000\n2000 200000 9\n": nil,
		"":                               nil,
	} {
		if got := hostUsers(uidMap, 1000, 1001); !slices.Equal(got, want) {
			t.Errorf("%q: %v, want %v", uidMap, got, want)
		}
	}
}
