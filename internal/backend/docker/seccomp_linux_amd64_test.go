package docker

import (
	"bytes"
	"encoding/json"
	"flag"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/host/seccomp"
)

var update = flag.Bool("update", false, "write what is rendered")

// callNames maps numbers to names of system calls, from golang.org/x/sys.
func callNames(t *testing.T) map[int]string {
	t.Helper()
	dir, err := exec.Command("go", "list", "-m", "-f", "{{.Dir}}", "golang.org/x/sys").Output()
	if err != nil {
		t.Fatal(err)
	}
	file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(strings.TrimSpace(string(dir)), "unix",
		"zsysnum_linux_amd64.go"), nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	names := map[int]string{}
	ast.Inspect(file, func(n ast.Node) bool {
		v, is := n.(*ast.ValueSpec)
		if !is || len(v.Values) != 1 {
			return true
		}
		nr, err := strconv.Atoi(v.Values[0].(*ast.BasicLit).Value)
		if err != nil {
			t.Fatal(err)
		}
		names[nr] = strings.ToLower(strings.TrimPrefix(v.Names[0].Name, "SYS_"))
		return true
	})
	return names
}

type rule struct {
	Names    []string `json:"names"`
	Action   string   `json:"action"`
	ErrnoRet uint     `json:"errnoRet,omitempty"`
}

// answers reports whether the policy allows or skips a call with some arguments: an outer filter must allow it.
func answers(policy *seccomp.Policy, nr int) bool {
	return slices.ContainsFunc(policy.Edges(nr), func(args [6]uint64) bool {
		a := policy.Answer(nr, args)
		return a == seccomp.Allow || a == seccomp.Skip
	})
}

// render renders the policy as a profile. A call that is refused only for some arguments is allowed here, as is keyctl,
// which only the guest makes to leave the session's keyring. The calls of 64-bit ARM are among those of this processor.
func render(t *testing.T) []byte {
	t.Helper()
	const enosys, einval = 38, 22
	policy := seccomp.New(seccomp.Options{NestedFilters: true}) // the most that any sandbox may have
	allowed, absent := rule{Action: "SCMP_ACT_ALLOW"}, rule{Action: "SCMP_ACT_ERRNO", ErrnoRet: enosys}
	for nr, name := range callNames(t) {
		switch {
		case nr > policy.Newest:
		// the guest may splice, and refuses it to code
		case answers(policy, nr) || name == "keyctl" || policy.Answer(nr, [6]uint64{}) == einval:
			allowed.Names = append(allowed.Names, name)
		case policy.Answer(nr, [6]uint64{}) == enosys:
			absent.Names = append(absent.Names, name)
		}
	}
	slices.Sort(allowed.Names)
	slices.Sort(absent.Names)
	// For an ABI that the profile does not name, the engine's filter kills the process. The guest's filter answers x32
	// numbers as unknown, as on every backend.
	architectures := []map[string]any{{"architecture": "SCMP_ARCH_X86_64",
		"subArchitectures": []string{"SCMP_ARCH_X32"}},
		{"architecture": "SCMP_ARCH_AARCH64", "subArchitectures": []string{}}}
	text, err := json.MarshalIndent(map[string]any{"defaultAction": "SCMP_ACT_ERRNO", "defaultErrnoRet": 1,
		"archMap":  architectures,
		"syscalls": []rule{allowed, absent}}, "", " ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

// TestProfile: the engines' profile equals the policy.
func TestProfile(t *testing.T) {
	want := render(t)
	if *update {
		if err := os.WriteFile("seccomp.json", want, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if !bytes.Equal(profile, want) && !*update {
		t.Error("seccomp.json differs from internal/host/seccomp; run: go test -run TestProfile -update ./internal/backend/docker")
	}
}
