package hostbox

import (
	"errors"
	"testing"
)

// TestCloseBy: what could not be ended is ended by a further call. Resources are freed once.
func TestCloseBy(t *testing.T) {
	var c Core
	lives, failure := errors.New("it lives"), errors.New("not all is free")
	ends, frees := 0, 0
	end := func() error {
		if ends++; ends == 1 {
			return lives
		}
		return nil
	}
	free := func() error { frees++; return failure }
	for n, want := range []error{lives, failure, failure} {
		if err := c.CloseBy(end, free); !errors.Is(err, want) {
			t.Errorf("call %d: %v", n, err)
		}
	}
	if ends != 2 || frees != 1 {
		t.Errorf("ended %d times, freed %d times", ends, frees)
	}
}
