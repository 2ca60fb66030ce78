package rules

import (
	"errors"
	"strings"
	"testing"
)

// TestLongName: a long name in another script, which the connections of a sandbox may state, is refused before the
// costly search for its canonical form. That form may be short: it has no soft hyphens.
func TestLongName(t *testing.T) {
	hyphens := strings.Repeat("\u00ad", maxRule/2)
	if name, err := CanonicalName(hyphens + "a.example"); !errors.Is(err, errNameLength) {
		t.Error(name, err)
	}
	if name, err := CanonicalName(hyphens[:10] + "b\u00fccher.example"); name != "xn--bcher-kva.example" {
		t.Error(name, err)
	}
	if name, _, err := Authority("b\u00fccher.example"); err == nil {
		t.Errorf("a Host that is not ASCII: %q", name)
	}
}
