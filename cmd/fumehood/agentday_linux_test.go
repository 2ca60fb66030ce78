package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"

	"github.com/fumehood-dev/fumehood/test/backendtest"
)

// dayServer is a server process with a state folder, which the test kills.
type dayServer struct {
	t       *testing.T
	dir     string
	backend string
	flags   []string // more of them
	key     string   // of client
	cmd     *exec.Cmd
	client  *client.Client
}

// start starts the server, or the next server on the same folder.
func (d *dayServer) start() {
	d.t.Helper()
	program, err := os.Executable()
	if err != nil {
		d.t.Fatal(err)
	}
	d.cmd = exec.Command(program)
	socket := filepath.Join(d.dir, "day.sock")
	d.cmd.Args = []string{"fumehood", "serve", "--backend", d.backend, "--allow-unenforced", "memory", "--listen",
		"unix:" + socket, "--state-dir", filepath.Join(d.dir, "state"), "--no-local-socket"}
	d.cmd.Args = append(d.cmd.Args, d.flags...)
	d.cmd.Env = append(os.Environ(), "FUMEHOOD_LIBEXEC="+libexecDir(d.t))
	var said bytes.Buffer
	d.cmd.Stderr = &said
	if err := d.cmd.Start(); err != nil {
		d.t.Fatal(err)
	}
	d.client = d.as(d.key)
	for end := time.Now().Add(time.Minute); ; time.Sleep(20 * time.Millisecond) {
		if _, err = d.client.Sandboxes(d.t.Context(), nil); err == nil {
			return
		}
		if time.Now().After(end) {
			_ = d.cmd.Process.Kill()
			_ = d.cmd.Wait()
			d.t.Fatalf("the server did not come up: %v\n%s", err, &said)
		}
	}
}

// as returns a client with a key.
func (d *dayServer) as(key string) *client.Client {
	d.t.Helper()
	c, err := client.New(client.Config{Server: "unix:" + filepath.Join(d.dir, "day.sock"), Key: key})
	if err != nil {
		d.t.Fatal(err)
	}
	return c
}

// stop ends the server, by SIGKILL or in order, and waits for its process.
func (d *dayServer) stop(signal os.Signal) {
	_ = d.cmd.Process.Signal(signal)
	_ = d.cmd.Wait()
	d.client.Close()
}

// step is one step of the day: code in a context, and the expected output.
type step struct{ context, language, code, want string }

// agentDay lists the steps of an agent, with the same results on every backend.
var agentDay = []step{
	{"", "python", "rows = [('a', 3), ('b', 4)]\nlen(rows)", "succeeded 0 value=2"},
	{"", "python", "import csv\nwith open('rows.csv', 'w') as f: csv.writer(f).writerows(rows)", "succeeded 0"},
	{"", "bash", "wc -l < rows.csv; export STAGE=two", "succeeded 0 out=2"},
	{"", "javascript", "const fs = require('fs'); const lines = fs.readFileSync('rows.csv', 'utf8').trim().split(/\\r?\\n/); lines.length", "succeeded 0 value=2"},
	{"", "python", "totals = {k: n * factor for k, n in rows}", "failed 1 error=NameError"},
	{"", "python", "factor = 10\ntotals = {k: n * factor for k, n in rows}\ntotals['b']", "succeeded 0 value=40"},
	{"", "python", "class Plot:\n  def _repr_png_(self): return b'\\x89PNG\\r\\n\\x1a\\n' + b'0' * 100\n  def __repr__(self): return 'a plot'\nPlot()", "succeeded 0 png value=a plot"},
	{"", "javascript", "let sum = 0; for (const l of lines) sum += Number(l.split(',')[1]); await Promise.resolve(sum)",
		"succeeded 0 value=7"},
	{"", "bash", "echo $STAGE > stage; cd /tmp", "succeeded 0"},
	{"", "python", "while True: pass", "timeout -1"},
	{"", "python", "print(open('stage').read().strip(), factor)", "succeeded 0 out=two 10"},
	{"KILL", "", "", ""},
	{"", "python", "totals['a'] + factor", "succeeded 0 value=40"},
	{"", "javascript", "sum * 2", "succeeded 0 value=14"},
	{"", "bash", "pwd; echo $STAGE", "succeeded 0 out=/tmp\ntwo"},
	{"", "python", "import os; os._exit(7)", "failed 7"},
	{"", "python", "totals", "failed 1 error=NameError"},
	{"", "python", "rows = list(__import__('csv').reader(open('rows.csv'))); rows[1][1]", "succeeded 0 value='4'"},
	{"TERM", "", "", ""},
	{"", "python", "import sys; print('warned', file=sys.stderr); int(rows[0][1])", "succeeded 0 err=warned value=3"},
	{"", "javascript", "process.exit(3)", "failed 3"},
	{"", "javascript", "sum + 1", "succeeded 0 value=8"},
}

// do runs a step and returns the agent's view of it in words.
func (d *dayServer) do(s step) string {
	asks := api.SandboxRunRequest{Program: api.Program{Code: &s.code, Language: s.language}, Context: s.context}
	if strings.HasPrefix(s.want, "timeout") {
		asks.Limits.TimeoutS = new(0.5)
	}
	ctx, cancel := context.WithTimeout(d.t.Context(), time.Minute)
	defer cancel()
	a, err := d.client.Run(ctx, "agent", asks)
	if err != nil {
		return "error: " + err.Error()
	}
	code := -1
	if a.ExitCode != nil {
		code = *a.ExitCode
	}
	seen := fmt.Sprintf("%s %d", a.Status, code)
	if out := strings.TrimSpace(a.Stdout); out != "" {
		seen += " out=" + out
	}
	if errs := strings.TrimSpace(a.Stderr); errs != "" && a.Exception == nil {
		seen += " err=" + errs
	}
	for _, r := range a.Results {
		if r.Data["image/png"] != "" {
			seen += " png"
		}
		seen += " value=" + r.Data["text/plain"]
	}
	if a.Exception != nil && a.Status == "failed" {
		seen += " error=" + a.Exception.Name
	}
	return seen
}

// TestAgentDay plays an agent's day in three contexts: files, a picture, a failure and its repair, a step that hangs,
// an interpreter that ends, a killed server and a stopped server, each with a run in the background.
func TestAgentDay(t *testing.T) {
	isNativeReady(t)
	for _, backend := range []string{"native", "gvisor"} {
		t.Run(backend, func(t *testing.T) {
			if backend != "native" {
				backendtest.ForCheck(t, "the same day on a slower backend")
			}
			d := &dayServer{t: t, dir: shortDir(t), backend: backend}
			d.start()
			defer func() {
				_ = d.client.Remove(context.Background(), "agent")
				d.stop(os.Interrupt)
			}()
			if _, made, err := d.client.Create(t.Context(), api.SandboxRequest{Name: "agent"}); err != nil || !made {
				t.Fatalf("create: %v, made %v", err, made)
			}
			run, err := d.client.Start(t.Context(), "agent",
				api.SandboxRunRequest{Program: api.Program{Command: []string{"sh", "-c",
					"i=0; while [ ! -e /tmp/enough ]; do i=$((i+1)); echo $i; sleep 0.02; done; exit 9"}}})
			if err != nil {
				t.Fatal(err)
			}
			for _, s := range agentDay {
				switch s.context {
				case "KILL":
					d.stop(os.Kill)
					d.start()
					continue
				case "TERM":
					d.stop(os.Interrupt)
					d.start()
					continue
				}
				if got := d.do(s); got != s.want {
					t.Errorf("%s %q\n got %s\nwant %s", s.language, s.code, got, s.want)
				}
			}
			d.do(step{language: "bash", code: "touch /tmp/enough"})
			var log bytes.Buffer
			var last client.Event
			err = d.client.Follow(t.Context(), "agent", string(run.ID), client.From{Wait: true},
				func(e client.Event) error {
					if e.Output != nil {
						log.Write(e.Output.Data)
					}
					last = e
					return nil
				})
			if err != nil || last.Done == nil || last.Done.ExitCode == nil || *last.Done.ExitCode != 9 {
				t.Errorf("the background execution ended with %+v, %v", last, err)
			}
			for i, line := range strings.Fields(log.String()) {
				if line != fmt.Sprint(i+1) {
					t.Errorf("line %d of its log is %q", i+1, line)
					break
				}
			}
			if regexp.MustCompile(`^1\n2\n`).FindString(log.String()) == "" {
				t.Errorf("its log is %.100q", log.String())
			}
		})
	}
}

// shortDir is a folder whose path leaves room for the names of sockets, of at most 107 bytes (unix(7)).
func shortDir(t *testing.T) string {
	dir, err := os.MkdirTemp("", "fh")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
