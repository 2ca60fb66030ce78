package backendtest

import (
	"os"
	"slices"
	"strings"
	"testing"
)

// requireVariable lists what this host must be able to do, so that a test of it may not be skipped: names of backends, and "limits" for
// limits that control groups enforce. It is a variable and not a flag of the test binary, as `go test ./...` would hand that to packages
// that do not know it, and it does not begin as those of the program do, which refuses what it does not know. CI and the virtual machine
// set it.
const requireVariable = "BACKENDTEST_REQUIRE"

// Skip skips a test of what this host cannot do, loudly, or fails it where that is required.
func Skip(t testing.TB, what string, why any) {
	t.Helper()
	if required(os.Getenv(requireVariable), what) {
		t.Fatalf("%s is required (%s), and this host cannot do it: %v", what, requireVariable, why)
	}
	t.Skipf("SKIPPED, NOT TESTED: this host cannot do %s: %v", what, why)
}

func required(list, what string) bool { return slices.Contains(strings.Split(list, ","), what) }

// ForCheck leaves a test to `make check` in short mode, and says why.
func ForCheck(t testing.TB, why string) {
	t.Helper()
	if testing.Short() {
		t.Skip("make check: " + why)
	}
}
