package httpd

import (
	"testing"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// TestFixesInFields: a client of the API is told of fields, not of flags.
func TestFixesInFields(t *testing.T) {
	for fix, want := range map[string]string{
		"use --backend docker or podman, or give a directory with --root":                 `use "backend": "docker" or podman`,
		"name an image that holds it, such as --image python:3.12-slim":                   `name an image that holds it, such as "image": "python:3.12-slim"`,
		"or name one that is here (docker images): glovebox run --image NAME":             `or name one that is here (docker images): "image": "NAME"`,
		"install the package bash on this host, or give --root a directory that holds it": "install the package bash on this host",
		"docker pull --platform linux/amd64 x:1":                                          "docker pull --platform linux/amd64 x:1",
	} {
		if p := problemOf(&sandbox.Error{Kind: sandbox.Unsupported, Msg: "no", Fix: fix}, "id"); p.Hint != want {
			t.Errorf("%s", p.Hint)
		}
	}
}
