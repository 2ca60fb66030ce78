package docker

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

const testImage = backendtest.EngineImage

// options are a backend's options for a test, which is skipped without the engine.
func options(t testing.TB, name string) Options {
	t.Helper()
	if testing.Short() {
		t.Skip("make check: it needs an engine")
	}
	return Options{Name: name, Host: backendtest.EngineHost(t, name), RunDir: filepath.Join(t.TempDir(), "run"),
		Image: testImage,
		Guest: guestProgram}
}

func guestProgram(string) (*os.File, error) { return backendtest.Guest() }

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

// Podman's suite is in test/podman, to run in parallel.
func TestSuite(t *testing.T) { backendtest.Run(t, opener(Name)) }
func TestWalls(t *testing.T) { backendtest.Walls(t, opener(Name)) }

// The attack corpus, as on every backend, but at most two attacks at once: each makes several containers, and an engine
// needs 0.25 s of processor time for one.
func TestAttacks(t *testing.T) {
	options(t, Name) // skip before anything is planted
	backendtest.Attacks(t, attacked(Name), 2)
}

// attacked opens a backend and checks at the end that the engine has none of its containers left.
func attacked(name string) backendtest.Open {
	return func(t *testing.T) sandbox.Backend {
		b := open(t, options(t, name))
		t.Cleanup(func() {
			found, err := connected(t, b).api.ContainerList(within(t), client.ContainerListOptions{All: true,
				Filters: client.Filters{}.Add("label", labelRun+"="+b.options.runLabel())})
			if err != nil {
				t.Error(err)
			}
			for _, c := range found.Items {
				t.Errorf("the engine still has %v, %s", c.Names, c.Status)
			}
		})
		return b
	}
}

// TestSuiteBridged is the suite with guests dialled through the engine, as with a remote one.
func TestSuiteBridged(t *testing.T) {
	for _, name := range []string{Name, Podman} {
		t.Run(name, func(t *testing.T) { backendtest.Run(t, bridged(name)) })
	}
}

func TestMatrix(t *testing.T) { backendtest.Matrix(t, opener(Name)) }
