package main

import (
	"testing"

	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// engineVariables are the variables with the address of an engine.
var engineVariables = map[string]string{"docker": "DOCKER_HOST", "podman": "CONTAINER_HOST"}

// onBackend returns the flags that make runs of m use a backend. Without its engine the test is skipped.
func onBackend(t *testing.T, m *Main, backend string) []string {
	t.Helper()
	flags := []string{"--backend", backend, "--allow-unenforced", "memory"}
	variable := engineVariables[backend]
	if variable == "" {
		return flags
	}
	host, own := backendtest.EngineHost(t, backend), m.LookupEnv
	m.LookupEnv = func(name string) (string, bool) {
		if name == variable {
			return host, true
		}
		return own(name)
	}
	return append(flags, "--image", backendtest.EngineImage)
}
