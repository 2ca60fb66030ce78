package docker

import (
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/glovebox-dev/glovebox/internal/backend/backendtest"
	"github.com/glovebox-dev/glovebox/internal/libexec"
	"github.com/glovebox-dev/glovebox/sandbox"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

// Where the engines of the tests are, and the image that they have: scripts/test-engines.sh starts them.
var (
	engines = filepath.Join("..", "..", "..", "build", "engines")
	sockets = map[string]string{Name: "docker.sock", Podman: "podman.sock"}
)

const testImage = "localhost/glovebox-test:latest"

// guestProgram is found, or built, once.
var guestProgram = sync.OnceValues(func() (libexec.Program, error) {
	dir, err := os.MkdirTemp("", "glovebox-programs-")
	if err != nil {
		return libexec.Program{}, err
	}
	return libexec.Guest(libexec.Options{CacheDir: dir})
})

// options are those of a backend for a test, which is skipped where the engine is not there.
func options(t *testing.T, name string) Options {
	t.Helper()
	folder, err := filepath.Abs(engines)
	if err != nil {
		t.Fatal(err)
	}
	if own := os.Getenv("GLOVEBOX_TEST_ENGINES"); own != "" {
		folder = own
	}
	socket := filepath.Join(folder, sockets[name])
	if _, err := os.Stat(socket); err != nil {
		backendtest.Skip(t, name, "no engine: start them with scripts/test-engines.sh start; "+err.Error())
	}
	return Options{Name: name, Host: "unix://" + socket, RunDir: filepath.Join(t.TempDir(), "run"), Image: testImage,
		Guest: func(string) (*os.File, error) {
			program, err := guestProgram()
			if err != nil {
				return nil, err
			}
			return program.Open()
		}}
}

// open opens a backend that is closed at the end of the test.
func open(t *testing.T, o Options) *Backend {
	t.Helper()
	b := New(o)
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
	})
	return b
}

func opener(name string) backendtest.Open {
	return func(t *testing.T) sandbox.Backend { return open(t, options(t, name)) }
}

func bridged(name string) backendtest.Open {
	return func(t *testing.T) sandbox.Backend {
		o := options(t, name)
		o.Bridge = true
		return open(t, o)
	}
}

func TestSuiteDocker(t *testing.T) { backendtest.Run(t, opener(Name)) }
func TestWallsDocker(t *testing.T) { backendtest.Walls(t, opener(Name)) }
func TestSuitePodman(t *testing.T) { backendtest.Run(t, opener(Podman)) }
func TestWallsPodman(t *testing.T) { backendtest.Walls(t, opener(Podman)) }

// TestSuiteBridged is the suite with guests that are dialled through the engine, as one elsewhere has it.
func TestSuiteBridged(t *testing.T) {
	for _, name := range []string{Name, Podman} {
		t.Run(name, func(t *testing.T) { backendtest.Run(t, bridged(name)) })
	}
}
