package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/internal/libexec"
)

// configDir is the folder of the user's configuration; false without a home.
func (a *app) configDir() (string, bool) { return a.userDir("XDG_CONFIG_HOME", ".config") }

// cacheDir is the folder of what can be made again.
func (a *app) cacheDir() (string, bool) { return a.userDir("XDG_CACHE_HOME", ".cache") }

// userDir follows the XDG Base Directory Specification: a variable that is not absolute is ignored.
func (a *app) userDir(variable, below string) (string, bool) {
	if dir, _ := a.LookupEnv(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "fumehood"), true
	}
	home, _ := a.LookupEnv("HOME")
	if !filepath.IsAbs(home) {
		return "", false
	}
	return filepath.Join(home, below, "fumehood"), true
}

// stateDir is the folder of what outlives the server: what systemd gives it (systemd.exec(5), StateDirectory), root's in /var/lib, or the
// user's; false without a home.
func (a *app) stateDir() (string, bool) {
	given, _ := a.LookupEnv("STATE_DIRECTORY")
	if dir, _, _ := strings.Cut(given, ":"); filepath.IsAbs(dir) {
		return dir, true
	}
	if runtime.GOOS == "linux" && os.Geteuid() == 0 {
		return "/var/lib/fumehood", true
	}
	return a.userDir("XDG_STATE_HOME", filepath.Join(".local", "state"))
}

// runDir is the folder of live state: locks, sockets, claims.
func (a *app) runDir() string { return rundir.Default(a.LookupEnv) }

// ownPlaces are all folders of ours, and the sources of the programs that make sandboxes. They may not exist.
func (a *app) ownPlaces() []string {
	places := []string{a.runDir()}
	for _, find := range []func() (string, bool){a.configDir, a.cacheDir, a.stateDir} {
		if dir, ok := find(); ok {
			places = append(places, dir)
		}
	}
	programs := libexec.Options{}
	programs.Dir, _ = a.LookupEnv("FUMEHOOD_LIBEXEC")
	programs.CacheDir, _ = a.cacheDir()
	return append(places, libexec.Places(programs)...)
}
