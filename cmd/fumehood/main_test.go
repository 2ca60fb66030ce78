package main

import (
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/rogpeppe/go-internal/testscript"

	"github.com/fumehood-dev/fumehood/internal/libexec"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The tests run the whole program, in this process or as a child, with the real backend. They work as root and as an
// ordinary user.

// TestMain is also the main of every child that a script starts, so it prepares nothing.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"fumehood": main}) }

// libexecDir returns a folder with the programs of sandboxes, built once for all scripts: the scripts' HOME has no
// cache.
func libexecDir(t *testing.T) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	if dir := os.Getenv("FUMEHOOD_LIBEXEC"); dir != "" {
		return dir
	}
	dir := t.TempDir()
	for _, find := range []func(libexec.Options) (libexec.Program, error){libexec.Guest, libexec.Runsc} {
		program, err := find(libexec.Options{CacheDir: filepath.Join(cache, "fumehood")})
		if err == nil {
			err = os.Symlink(program.Source, filepath.Join(dir, filepath.Base(program.Source)))
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := os.Chmod(filepath.Dir(dir), 0o755); err != nil {
		t.Fatal(err)
	}
	return dir
}

// isReady reports whether this host can enforce the default policy. If an ordinary user cannot limit memory, scripts
// waive the limit and skip its tests.
func isReady(t *testing.T) bool {
	h, err := testApp(t).examine(t.Context(), "", sandbox.Root{}, nil)
	if err != nil {
		t.Fatal(err)
	}
	if !h.Ready {
		t.Log("this host does not carry the default policy; fumehood doctor says why")
	}
	return h.Ready
}

func TestScripts(t *testing.T) {
	programs, ready := libexecDir(t), isReady(t)
	images := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	t.Cleanup(images.Close)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("FUMEHOOD_LIBEXEC", programs)
			env.Setenv("REGISTRY", strings.TrimPrefix(images.URL, "http://"))
			if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
				env.Setenv("XDG_RUNTIME_DIR", dir)
			}
			if !ready {
				env.Setenv("FUMEHOOD_ALLOW_UNENFORCED", "memory")
			}
			return os.MkdirAll(home, 0o700)
		},
		Condition: func(name string) (bool, error) {
			switch name {
			case "ready":
				return ready, nil
			case "root":
				return os.Geteuid() == 0, nil
			}
			return false, fmt.Errorf("unknown condition %q", name)
		},
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"waitfor": waitFor,
		},
	})
}

// waitFor waits until a file contains a text that another program writes.
func waitFor(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) != 2 {
		ts.Fatalf("usage: waitfor FILE TEXT")
	}
	for deadline := time.Now().Add(stepTimeout); time.Now().Before(deadline); time.Sleep(5 * time.Millisecond) {
		if data, err := os.ReadFile(ts.MkAbs(args[0])); err == nil && strings.Contains(string(data), args[1]) {
			return
		}
	}
	ts.Fatalf("%s never held %q", args[0], args[1])
}
