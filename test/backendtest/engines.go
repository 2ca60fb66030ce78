package backendtest

import (
	"os"
	"path/filepath"
	"runtime"
	"testing"
)

// EngineImage is the image in the test engines: a Debian with Python, Node, bash, pip, npm, curl and git.
const EngineImage = "localhost/fumehood-test:latest"

// enginesVariable names a folder of engine sockets other than that of scripts/test-engines.sh.
const enginesVariable = "BACKENDTEST_ENGINES"

// EngineHost is the address of the named test engine. Without one the test is skipped.
func EngineHost(t testing.TB, name string) string {
	t.Helper()
	folder := os.Getenv(enginesVariable)
	if folder == "" {
		_, here, _, _ := runtime.Caller(0)
		folder = filepath.Join(filepath.Dir(here), "..", "..", "build", "engines")
	}
	socket := filepath.Join(folder, name+".sock")
	if _, err := os.Stat(socket); err != nil {
		Skip(t, name, "start the engines with scripts/test-engines.sh start: "+err.Error())
	}
	return "unix://" + socket
}
