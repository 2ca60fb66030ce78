package python

import (
	_ "embed"

	"github.com/fumehood-dev/fumehood/sandbox"
)

//go:embed lines.py
var linesScript string

const linesDir = "/run/python"

var lines = &sandbox.Startup{
	Path:   linesDir + "/sitecustomize.py",
	Script: linesScript,
	Env:    []string{"PYTHONPATH=" + linesDir},
}
