package rules

import (
	"strings"
	"testing"
	"time"
)

// TestNameCost: a long name in another script, which the connections of a sandbox may state, costs little.
func TestNameCost(t *testing.T) {
	var long strings.Builder
	for c := rune(0x4e00); long.Len() < 32<<10; c++ {
		long.WriteRune(c)
	}
	began := time.Now()
	if name, err := CanonicalName(long.String()); err == nil {
		t.Error(name)
	}
	if name, _, err := Authority(long.String()); err == nil {
		t.Error(name)
	}
	if took := time.Since(began); took > 200*time.Millisecond {
		t.Errorf("it took %s", took)
	}
	if name, _, err := Authority("b\u00fccher.example"); err == nil {
		t.Errorf("a Host that is not ASCII: %q", name)
	}
	if name, err := CanonicalName("b\u00fccher.example"); name != "xn--bcher-kva.example" {
		t.Error(name, err)
	}
}
