package backendtest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// requireVariable lists what this host must support, so that tests of it may not be skipped: names of backends, and
// "limits" for limits enforced by control groups. It is a variable, as `go test ./...` would pass a flag to packages
// that do not know it, and it lacks the prefix of the program's variables, as the program refuses unknown ones. CI and
// the virtual machine set it.
const requireVariable = "BACKENDTEST_REQUIRE"

// Skip skips a test that this host cannot run, or fails it if it is required.
func Skip(t testing.TB, what string, why any) {
	t.Helper()
	if required(os.Getenv(requireVariable), what) {
		t.Fatalf("%s is required (%s), and this host cannot do it: %v", what, requireVariable, why)
	}
	t.Skipf("SKIPPED, NOT TESTED: this host cannot do %s: %v", what, why)
}

func required(list, what string) bool { return slices.Contains(strings.Split(list, ","), what) }

// ForCheck skips a test in short mode, with the reason. `make check` runs it.
func ForCheck(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("make check: " + why)
	}
}
