// Package podman_test runs the contract's suites on Podman's engine. It is a package of its own to run in parallel with
// Docker's. The tests of internal/backend/docker cover details on both engines.
package podman_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/moby/moby/client"

	"github.com/fumehood-dev/fumehood/internal/backend/docker"
	"github.com/fumehood-dev/fumehood/sandbox"
	"github.com/fumehood-dev/fumehood/test/backendtest"
)

func TestMain(m *testing.M) { backendtest.Main(m) }

func TestSuite(t *testing.T)  { backendtest.Run(t, open) }
func TestWalls(t *testing.T)  { backendtest.Walls(t, open) }
func TestMatrix(t *testing.T) { backendtest.Matrix(t, open) }

// The attack corpus, one attack at a time: on Docker many run at once.
func TestAttacks(t *testing.T) {
	host(t) // nothing is planted where there is no engine
	backendtest.AttacksAlone(t, open)
}

// host is the engine's address. Without one the test is skipped.
func host(t *testing.T) string {
	t.Helper()
	if testing.Short() {
		t.Skip("make check: it needs an engine")
	}
	return backendtest.EngineHost(t, docker.Podman)
}

// open opens a backend that closes at the end of the test, when its engine has no more containers of it.
func open(t *testing.T) sandbox.Backend {
	t.Helper()
	return openIn(t, host(t), filepath.Join(t.TempDir(), "run"))
}

func openIn(t *testing.T, host, run string) sandbox.Backend {
	t.Helper()
	b := docker.New(docker.Options{Name: docker.Podman, Host: host, RunDir: run, Image: backendtest.EngineImage,
		Guest: func(string) (*os.File, error) { return backendtest.Guest() }})
	t.Cleanup(func() {
		if err := b.Close(); err != nil {
			t.Error(err)
		}
		for _, name := range left(t, host, run) {
			t.Errorf("the engine still has %s", name)
		}
	})
	return b
}

// left asks the engine for the containers of a run folder: each mounts the folder of its guest's socket.
func left(t *testing.T, host, run string) (names []string) {
	t.Helper()
	engine, err := client.New(client.WithHost(host))
	if err != nil {
		t.Fatal(err)
	}
	defer engine.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	found, err := engine.ContainerList(ctx, client.ContainerListOptions{All: true})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range found.Items {
		for _, m := range c.Mounts {
			if strings.HasPrefix(m.Source, run+"/") {
				names = append(names, strings.Join(c.Names, " ")+", "+c.Status)
			}
		}
	}
	return names
}

// TestLeft: an existing container is found; otherwise finding none would mean nothing.
func TestLeft(t *testing.T) {
	host, run := host(t), filepath.Join(t.TempDir(), "run")
	box, err := openIn(t, host, run).Create(t.Context(), sandbox.Spec{
		ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser, Env: sandbox.DefaultEnv,
	})
	if err != nil {
		t.Fatal(err)
	}
	if names := left(t, host, run); len(names) != 1 {
		t.Errorf("of one container it says %q", names)
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
}
