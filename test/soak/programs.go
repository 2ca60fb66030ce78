package main

import (
	"embed"
	"fmt"
	"path"
	"strings"

	"github.com/fumehood-dev/fumehood/test/liveserver"
)

//go:embed programs
var sources embed.FS

// program is a benign program such as people and models run. Its output on this host without a sandbox is the expected
// one.
type program struct {
	name        string
	language    string
	interpreter string // on the host
	code        string
	stdin       string
	files       []liveserver.File
	returns     []string // globs of files to compare
}

// variants is the number of values of a program's argument. They reveal the answer of another run.
const variants = 8

// programs returns all programs.
func programs() ([]program, error) {
	entries, err := sources.ReadDir("programs")
	if err != nil {
		return nil, err
	}
	var list []program
	for _, e := range entries {
		code, err := sources.ReadFile(path.Join("programs", e.Name()))
		if err != nil {
			return nil, err
		}
		p := program{name: e.Name(), code: string(code)}
		switch path.Ext(e.Name()) {
		case ".py":
			p.language, p.interpreter = "python", "/usr/bin/python3"
		case ".js", ".mjs":
			p.language, p.interpreter = "javascript", "node"
		case ".sh":
			p.language, p.interpreter = "bash", "/bin/bash"
		default:
			return nil, fmt.Errorf("unknown extension: %s", e.Name())
		}
		switch e.Name() {
		case "report.py":
			p.stdin, p.returns = "1.5", []string{"out/**"}
			p.files = []liveserver.File{{Path: "data/in.csv", Content: []byte(table())}}
		case "module.mjs":
			p.returns = []string{"*.json"}
		}
		list = append(list, p)
	}
	return list, nil
}

// table is the CSV that report.py reads.
func table() string {
	var b strings.Builder
	b.WriteString("kind,value\n")
	for i := range 500 {
		fmt.Fprintf(&b, "%s,%d.%d\n", []string{"alpha", "beta", "gamma"}[i%3], i*7%101, i%10)
	}
	return b.String()
}

// timeoutS is generous: a run of 100 ms takes some seconds with 32 concurrent runs on two CPUs.
const timeoutS = 60

// request returns a request for one run of a program.
func (p *program) request(variant int) *liveserver.Request {
	return &liveserver.Request{
		Language: p.language, Code: p.code, Args: []string{fmt.Sprint(variant)}, Stdin: p.stdin,
		Files: p.files, ReturnFiles: p.returns, Limits: &liveserver.Limits{TimeoutS: timeoutS},
	}
}
