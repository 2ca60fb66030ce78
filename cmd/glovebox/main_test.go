package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"testing"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/glovebox-dev/glovebox/internal/libexec"
)

// The tests run the whole program, in this process or as a child, with the real backend. They work as root and as an ordinary
// user.

// TestMain is also the main of every child that a script starts, so it prepares nothing.
func TestMain(m *testing.M) { testscript.Main(m, map[string]func(){"glovebox": main}) }

// guestDir holds the guest program, built once for all scripts: their own HOME has no cache of builds.
func guestDir(t *testing.T) string {
	if runtime.GOOS != "linux" {
		return ""
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		cache = os.TempDir()
	}
	program, err := libexec.Guest(libexec.Options{Dir: os.Getenv("GLOVEBOX_LIBEXEC"), CacheDir: filepath.Join(cache, "glovebox")})
	if err != nil {
		t.Fatal(err)
	}
	return filepath.Dir(program.Source)
}

func TestScripts(t *testing.T) {
	guest := guestDir(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			home := filepath.Join(env.WorkDir, "home")
			env.Setenv("HOME", home)
			env.Setenv("GLOVEBOX_LIBEXEC", guest)
			if dir := os.Getenv("XDG_RUNTIME_DIR"); dir != "" {
				env.Setenv("XDG_RUNTIME_DIR", dir)
			}
			return os.MkdirAll(home, 0o700)
		},
		Condition: func(name string) (bool, error) {
			switch name {
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
