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

// program is a benign program such as people and models run. Its expected output is what the same program printed on this
// host without a sandbox.
type program struct {
	name     string
	language string
	bare     []string // the interpreter on the host, before the file
	code     string
	stdin    string
	files    []liveserver.File
	returns  []string // globs of files to compare too
}

// variants is how many values a program's argument takes, so that another run's answer is noticed.
const variants = 8

// programs lists every program, with its needs on the host.
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
			p.language, p.bare = "python", []string{"/usr/bin/python3"}
		case ".js", ".mjs":
			p.language, p.bare = "javascript", []string{"node"}
		case ".sh":
			p.language, p.bare = "bash", []string{"/bin/bash"}
		default:
			return nil, fmt.Errorf("no language runs %s", e.Name())
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

// timeoutS is generous: with 32 at once on two CPUs a run of 100 ms takes some seconds at worst.
const timeoutS = 60

// request is one run of a program.
func (p *program) request(variant int) *liveserver.Request {
	return &liveserver.Request{Language: p.language, Code: p.code, Args: []string{fmt.Sprint(variant)}, Stdin: p.stdin, Files: p.files,
		ReturnFiles: p.returns, Limits: &liveserver.Limits{TimeoutS: timeoutS}}
}
