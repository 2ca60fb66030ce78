package backendtest

import "testing"

func TestRequired(t *testing.T) {
	for list, want := range map[string]bool{"": false, "native": true, "gvisor,native": true, "natives": false,
		"limits": false} {
		if required(list, "native") != want {
			t.Errorf("%q: %t", list, !want)
		}
	}
}
