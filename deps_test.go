package fumehood_test

import (
	"bufio"
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"
)

// importPolicy lists what each package may import: packages of this module, and after a bar packages of others.
// A line that begins with a blank continues the line before it. The policy follows the design: sandbox imports nothing,
// the guest imports sandbox, backends, languages and the engine do not import each other, and only the packages that
// wire a program together import all. Change the policy when the design changes, not to make a build pass.
const importPolicy = `
# vocabulary and contracts
sandbox:

# the wire types of the HTTP API
api:                         sandbox

# the guest, and the protocol between it and the host
internal/guest/nowait:       | golang.org/x/sys
internal/guest/wire:         internal/guest/nowait
internal/guest:              sandbox internal/guest/wire
internal/guest/client:       sandbox internal/guest internal/guest/wire
internal/guest/confine:      sandbox internal/guest/wire internal/host/seccomp | golang.org/x/sys
internal/host/filelock:      | golang.org/x/sys
internal/host/fork:          | golang.org/x/sys
internal/guest/server:       sandbox internal/host/fork internal/guest internal/guest/server/files
                             internal/guest/nowait internal/guest/wire | golang.org/x/sys
internal/guest/server/files: sandbox internal/guest | golang.org/x/sys
cmd/fumehood-runsc:          | gvisor.dev/gvisor
cmd/fumehood-typescript:     | github.com/evanw/esbuild/pkg/api
cmd/fumehood-guest:          internal/guest internal/guest/confine internal/guest/server | golang.org/x/sys

# what Linux offers to backends, and the backends
internal/host/enforce:       sandbox internal/host/cgroup
internal/host/capacity:      sandbox internal/host/cgroup | golang.org/x/sys
internal/host/cgroup:        sandbox | golang.org/x/sys github.com/godbus/dbus/v5
internal/host/hostid:        sandbox | golang.org/x/sys
internal/host/hostbox:       sandbox internal/host/cgroup internal/host/filelock internal/host/hostid
                             internal/host/instance internal/host/overlay internal/host/pidfd
                             internal/host/rootfs internal/host/tap internal/host/undo
internal/host/idmap:         sandbox internal/host/nolink | golang.org/x/sys
internal/host/instance:      sandbox internal/host/cgroup internal/host/filelock internal/host/pidfd internal/host/rundir
internal/host/nolink:        sandbox | golang.org/x/sys
internal/host/kernel:        | golang.org/x/sys
internal/host/overlay:       sandbox internal/host/idmap internal/host/kernel internal/walk | golang.org/x/sys
internal/host/pidfd:         | golang.org/x/sys
internal/host/rootfs:        sandbox internal/guest/confine internal/host/nolink
internal/host/route:         | golang.org/x/sys
internal/host/rundir:        sandbox
internal/host/seccomp:       | golang.org/x/sys
internal/host/systemd:       | golang.org/x/sys
internal/host/tap:           sandbox internal/host/fork | golang.org/x/sys
internal/host/undo:
internal/backend/docker:     sandbox internal/host/enforce internal/host/tap internal/host/cgroup internal/guest/client
                             internal/guest/confine internal/host/idmap internal/host/instance internal/host/nolink
                             internal/host/pidfd internal/host/rootfs internal/host/undo internal/host/hostbox
                             internal/host/fork | golang.org/x/sys github.com/moby/moby github.com/docker/go-connections
                             github.com/containerd/errdefs
internal/backend/native:     sandbox internal/host/enforce internal/host/tap internal/host/fork internal/guest/client
                             internal/guest/confine internal/host/cgroup internal/host/hostbox internal/host/hostid
                             internal/host/idmap internal/host/instance internal/host/kernel internal/host/nolink
                             internal/host/pidfd internal/host/rootfs internal/host/seccomp internal/host/undo |
                             golang.org/x/sys
internal/backend/gvisor:     sandbox internal/host/enforce internal/host/tap internal/host/fork internal/guest
                             internal/guest/client internal/guest/confine internal/host/cgroup internal/host/hostbox
                             internal/host/hostid internal/host/idmap internal/host/instance internal/host/nolink
                             internal/host/pidfd internal/host/rootfs internal/host/seccomp internal/host/undo |
                             golang.org/x/sys github.com/opencontainers/runtime-spec
test/backendtest:            sandbox internal/attack internal/engine internal/guest internal/guest/client
                             internal/guest/server internal/image internal/libexec internal/host/nolink
                             internal/host/seccomp internal/volume |
                             golang.org/x/sys

# spelling
internal/nearest:

# advice on source text
internal/check:              sandbox internal/lang/lex internal/lang/trace internal/nearest

# languages
internal/lang/lex:
internal/lang/trace:         sandbox
internal/lang/python:        sandbox internal/lang/lex internal/lang/trace
internal/lang/javascript:    sandbox internal/lang/lex internal/lang/trace
internal/lang/bash:          sandbox internal/lang/trace | mvdan.cc/sh/v3
internal/lang/typescript:    sandbox internal/lang/javascript
internal/lang/c:             sandbox internal/lang/trace
internal/lang/golang:        sandbox internal/lang/trace
internal/lang/java:          sandbox internal/lang/trace
internal/lang/lua:           sandbox internal/lang/trace
internal/lang/perl:          sandbox internal/lang/trace
internal/lang/php:           sandbox internal/lang/trace
internal/lang/r:             sandbox internal/lang/trace
internal/lang/ruby:          sandbox internal/lang/trace
internal/lang/rust:          sandbox internal/lang/trace
test/langtest:               sandbox internal/driver | github.com/rogpeppe/go-internal

# the protocol between the engine and the interpreter of a context
internal/driver:

# planning: pure, no I/O
internal/diagnose:           sandbox
internal/toolcall:           sandbox | github.com/google/jsonschema-go
internal/plan:               sandbox internal/guest internal/nearest internal/toolcall

# packages of code
internal/packages:           sandbox internal/cputime internal/nearest internal/host/filelock internal/trees
                             | golang.org/x/sys
internal/packages/shared:    sandbox internal/packages

# images, and the trees in which they are kept
internal/trees:              sandbox internal/host/filelock internal/host/rundir
internal/walk:
internal/volume:             sandbox internal/host/filelock internal/room | golang.org/x/sys
internal/image:              sandbox internal/egress/rules internal/host/hostbox internal/host/rootfs
                             internal/host/route internal/room internal/trees internal/walk |
                             golang.org/x/sys github.com/google/go-containerregistry github.com/klauspost/compress/zstd
internal/template:           sandbox internal/engine internal/host/capacity internal/image internal/walk |
                             github.com/moby/buildkit/frontend/dockerfile github.com/moby/patternmatcher
test/redistest:

# the gate
internal/egress/rules:       sandbox | golang.org/x/net
internal/egress/sniff:       | golang.org/x/net
internal/egress/intercept:   sandbox internal/duplex internal/egress/rules internal/egress/sniff
internal/egress:             sandbox internal/duplex internal/egress/intercept internal/egress/rules
                             internal/egress/sniff internal/host/capacity internal/host/route internal/room |
                             gvisor.dev/gvisor/pkg golang.org/x/net golang.org/x/sys
internal/egress/egresstest:  internal/egress/intercept | golang.org/x/net golang.org/x/sys

# the engine: it gets backends, languages and a store as values
internal/engine:             sandbox api internal/cputime internal/diagnose internal/driver internal/eventlog
                             internal/guest internal/guest/client internal/host/filelock
                             internal/largejson internal/nearest internal/plan internal/room internal/toolcall

# records and logs that outlive the process
internal/eventlog:           sandbox internal/host/nolink internal/room | golang.org/x/sys
internal/store:              sandbox internal/host/filelock internal/host/nolink internal/room

# attacks on sandboxes, and the oracle
internal/attack:             sandbox internal/egress internal/egress/intercept internal/engine internal/guest
                             internal/guest/client internal/host/filelock internal/host/seccomp internal/volume |
                             golang.org/x/sys

# the CPU time of each client
internal/cputime:            | golang.org/x/sys google.golang.org/protobuf/encoding/protowire

# connections whose directions close independently
internal/duplex:             | golang.org/x/net

# what all owners, and each, may hold
internal/room:

# JSON with long texts
internal/largejson:          sandbox

# faces: they call the engine, and never each other
internal/wording:            sandbox api
internal/answer:             sandbox api internal/largejson internal/wording
client:                      sandbox api internal/duplex internal/toolcall | github.com/coder/websocket
internal/httpd:              sandbox api internal/answer internal/cputime internal/duplex internal/engine
                             internal/largejson internal/room |
                             github.com/prometheus/client_golang golang.org/x/sys golang.org/x/time
internal/httpapi:            sandbox api internal/answer internal/wording internal/duplex internal/engine internal/httpd
                             internal/image internal/largejson internal/nearest internal/packages internal/plan
                             internal/template internal/room | github.com/coder/websocket
internal/e2bapi/generated/process:           | google.golang.org/protobuf
internal/e2bapi/generated/filesystem:        | google.golang.org/protobuf
internal/e2bapi/generated/process/processconnect:       internal/e2bapi/generated/process | connectrpc.com/connect
internal/e2bapi/generated/filesystem/filesystemconnect: internal/e2bapi/generated/filesystem | connectrpc.com/connect
internal/e2bapi:             sandbox internal/e2bapi/generated/process internal/e2bapi/generated/filesystem
                             internal/e2bapi/generated/process/processconnect
                             internal/e2bapi/generated/filesystem/filesystemconnect internal/answer internal/engine
                             internal/eventlog internal/largejson internal/room
                             internal/httpd | connectrpc.com/connect google.golang.org/protobuf
internal/dashboard:          internal/httpd
internal/dashboard/bundle:   | github.com/evanw/esbuild/pkg/api
internal/openaiapi:          sandbox internal/answer internal/engine internal/largejson internal/httpd
internal/mcp:                sandbox api internal/answer internal/wording internal/engine internal/httpd
                             internal/nearest |
                             github.com/modelcontextprotocol/go-sdk

# wiring: lists, programs, the Go API
internal/libexec:            sandbox internal/host/rundir | github.com/klauspost/compress/zstd golang.org/x/sys
internal/libexec/compress:   | github.com/klauspost/compress/zstd
internal/lang:               sandbox internal/lang/bash internal/lang/c internal/lang/golang internal/lang/java
                             internal/lang/javascript internal/lang/lua internal/lang/perl internal/lang/php
                             internal/lang/python internal/lang/r internal/lang/ruby internal/lang/rust
                             internal/lang/typescript
internal/backend:            sandbox internal/backend/docker internal/backend/native internal/backend/gvisor
                             internal/host/hostbox internal/host/hostid internal/host/instance internal/image
                             internal/lang internal/libexec internal/host/rundir
internal/cli/terminal:       | golang.org/x/term golang.org/x/sys
internal/cli/hostfiles:      sandbox internal/cli/terminal internal/host/nolink internal/plan
internal/cli/keyfile:         sandbox internal/cli/hostfiles internal/cli/settings internal/egress internal/host/filelock
                             internal/httpd internal/nearest | github.com/spf13/pflag
internal/cli/repl:           internal/cli/hostfiles internal/cli/terminal | mvdan.cc/sh/v3
internal/cli/settings:       sandbox internal/cli/hostfiles internal/host/capacity internal/host/rundir internal/libexec
                             internal/nearest | github.com/spf13/cobra github.com/spf13/pflag github.com/BurntSushi/toml
cmd/fumehood:                sandbox api internal/answer internal/wording client internal/attack internal/backend
                             internal/host/capacity internal/check internal/packages internal/packages/shared
                             internal/dashboard internal/duplex internal/e2bapi internal/egress internal/engine
                             internal/eventlog internal/guest
                             internal/httpapi internal/httpd internal/lang internal/mcp internal/nearest
                             internal/openaiapi
                             internal/host/nolink internal/image internal/plan internal/host/rundir
                             internal/host/systemd
                             internal/store internal/template internal/volume
                             internal/cli/hostfiles internal/cli/keyfile internal/cli/repl internal/cli/settings
                             internal/cli/terminal |
                             golang.org/x/crypto/acme golang.org/x/time
                             github.com/spf13/cobra github.com/spf13/pflag
.:                           sandbox internal/backend internal/check internal/packages internal/egress internal/engine
                             internal/lang internal/toolcall internal/volume

# programs that test the product from outside
test/liveserver:
test/papers:
test/soak:                   test/liveserver
test/charges:                test/liveserver
test/torture:                api sandbox test/liveserver
bench:                       . api client internal/egress internal/host/tap sandbox test/liveserver | golang.org/x/sys
                             github.com/google/go-containerregistry
`

const module = "github.com/fumehood-dev/fumehood"

type allowed struct{ ours, others []string }

func parsePolicy(t *testing.T) map[string]allowed {
	policy := map[string]allowed{}
	joined := regexp.MustCompile(`\n[ \t]+`).ReplaceAllString(importPolicy, " ")
	for line := range strings.Lines(joined) {
		line, _, _ = strings.Cut(strings.TrimSpace(line), "#")
		if line == "" {
			continue
		}
		pkg, rest, ok := strings.Cut(line, ":")
		if !ok {
			t.Fatalf("a line of the policy has no colon: %s", line)
		}
		if _, twice := policy[pkg]; twice {
			t.Fatalf("the policy has two lines for %s", pkg)
		}
		ours, others, _ := strings.Cut(rest, "|")
		policy[pkg] = allowed{strings.Fields(ours), strings.Fields(others)}
	}
	return policy
}

// listImports returns the imports of each package of this module on one system, without those of its tests.
func listImports(t *testing.T, system string) map[string][]string {
	t.Helper()
	cmd := exec.Command("go", "list", "-e", "-tags", "embed", "-f", `{{.ImportPath}}:{{join .Imports " "}}`, "./...")
	cmd.Env = append(os.Environ(), "GOOS="+system, "CGO_ENABLED=0")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	imports := map[string][]string{}
	for line := range strings.Lines(string(out)) {
		pkg, list, _ := strings.Cut(strings.TrimSpace(line), ":")
		imports[ourName(pkg)] = strings.Fields(list)
	}
	return imports
}

// ourName returns the path of a package within this module. It returns packages of other modules unchanged.
func ourName(pkg string) string {
	if pkg == module {
		return "."
	}
	return strings.TrimPrefix(pkg, module+"/")
}

func TestImportPolicy(t *testing.T) {
	policy := parsePolicy(t)
	seen := map[string]bool{}
	for _, system := range []string{"linux", "darwin", "windows"} {
		for pkg, imports := range listImports(t, system) {
			seen[pkg] = true
			rule, ok := policy[pkg]
			if !ok && len(imports) > 0 {
				t.Errorf("the policy has no line for %s", pkg)
				continue
			}
			for _, i := range imports {
				switch name := ourName(i); {
				case name != i:
					if !slices.Contains(rule.ours, name) {
						t.Errorf("%s on %s: %s must not import %s", pkg, system, pkg, name)
					}
				case strings.Contains(strings.SplitN(i, "/", 2)[0], "."):
					within := func(m string) bool { return i == m || strings.HasPrefix(i, m+"/") }
					if !slices.ContainsFunc(rule.others, within) {
						t.Errorf("%s on %s: %s must not import %s", pkg, system, pkg, i)
					}
				}
			}
		}
	}
	for pkg := range policy {
		if !seen[pkg] {
			t.Errorf("the policy has a line for %s, which does not exist", pkg)
		}
	}
}

// forbidden lists packages that a program or package must not import.
var forbidden = []struct {
	of   string
	deep bool // applies to indirect imports too
	why  string
	list []string
}{
	{"./sandbox", false, "the contracts do no I/O", []string{
		"os", "os/exec", "syscall", "net/http", "io/ioutil", "log", "log/slog", "sync", "path/filepath",
	}},
	{"./internal/attack", true, "it is part of the program", []string{"testing"}},
	// Package net is allowed: sandbox needs net.Conn, and the linker drops nearly all of net.
	{"./cmd/fumehood-guest", true, "every sandbox pays for its start", []string{
		"net/http", "encoding/json", "encoding/gob", "encoding/xml", "log", "log/slog", "regexp", "text/template",
		"html/template", "os/exec", "os/user", "go/types", "testing", "archive/tar",
	}},
}

func TestForbiddenImports(t *testing.T) {
	for _, f := range forbidden {
		args := []string{"list", "-f", `{{join .Imports "\n"}}`, f.of}
		if f.deep {
			args = []string{"list", "-deps", f.of}
		}
		cmd := exec.Command("go", args...)
		cmd.Env = append(os.Environ(), "GOOS=linux", "CGO_ENABLED=0")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("go list %s: %v", f.of, err)
		}
		linked := strings.Fields(string(out))
		for _, pkg := range f.list {
			if slices.Contains(linked, pkg) {
				t.Errorf("%s must not import %s: %s", f.of, pkg, f.why)
			}
		}
	}
}

// initBudget bounds the time of all package initialisers of fumehood. Every command pays for them.
const initBudget = 20 * time.Millisecond

var initLine = regexp.MustCompile(`(?m)^init (\S+) @\S+ ms, (\S+) ms clock`)

// TestInitBudget takes the minimum of several runs, since other load on the machine only adds to the time.
func TestInitBudget(t *testing.T) {
	if testing.Short() {
		t.Skip("make check: a time budget")
	}
	program := filepath.Join(t.TempDir(), "fumehood")
	build := exec.Command("go", "build", "-trimpath", "-o", program, "./cmd/fumehood")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	const runs = 20
	least, slowest := time.Duration(0), ""
	for i := range runs {
		total, name := initTime(t, program)
		if i == 0 || total < least {
			least, slowest = total, name
		}
	}
	t.Logf("initialisers take %v; the slowest: %s", least, slowest)
	if least > initBudget {
		t.Errorf("initialisers take %v, more than %v", least, initBudget)
	}
}

// initTime returns the time of all initialisers in one start, as GODEBUG=inittrace=1 reports them, and the slowest
// package.
func initTime(t *testing.T, program string) (total time.Duration, slowest string) {
	t.Helper()
	cmd := exec.Command(program, "version")
	cmd.Env = append(os.Environ(), "GODEBUG=inittrace=1")
	var trace bytes.Buffer
	cmd.Stderr = &trace
	if err := cmd.Run(); err != nil {
		t.Fatal(err)
	}
	most := time.Duration(0)
	lines := bufio.NewScanner(&trace)
	for lines.Scan() {
		m := initLine.FindStringSubmatch(lines.Text())
		if m == nil {
			continue
		}
		ms, err := strconv.ParseFloat(m[2], 64)
		if err != nil {
			t.Fatal(err)
		}
		took := time.Duration(ms * float64(time.Millisecond))
		total += took
		if took > most {
			most, slowest = took, m[1]
		}
	}
	if total == 0 {
		t.Fatalf("no initialiser was traced:\n%s", trace.String())
	}
	return total, slowest
}
