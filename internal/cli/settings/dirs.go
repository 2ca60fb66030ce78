package settings

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/internal/libexec"
)

// Environment looks up variables, like os.LookupEnv. Its folders follow the XDG Base Directory Specification.
type Environment func(name string) (string, bool)

// Get returns a variable, or "" if it is not set.
func (e Environment) Get(name string) string {
	value, _ := e(name)
	return value
}

// ConfigDir returns the folder of the user's configuration; "" without a home.
func (e Environment) ConfigDir() string { return e.userDir("XDG_CONFIG_HOME", ".config") }

// CacheDir returns the folder of files that can be made again; "" without a home.
func (e Environment) CacheDir() string { return e.userDir("XDG_CACHE_HOME", ".cache") }

// UserStateDir returns the folder of the user's state, such as the history of a repl; "" without a home.
func (e Environment) UserStateDir() string {
	return e.userDir("XDG_STATE_HOME", filepath.Join(".local", "state"))
}

// userDir ignores a variable that is not an absolute path, as the specification requires.
func (e Environment) userDir(variable, below string) string {
	if dir := e.Get(variable); filepath.IsAbs(dir) {
		return filepath.Join(dir, "fumehood")
	}
	if home := e.Get("HOME"); filepath.IsAbs(home) {
		return filepath.Join(home, below, "fumehood")
	}
	return ""
}

// StateDir returns the folder of the server's state: systemd's (systemd.exec(5), StateDirectory), root's in /var/lib,
// or the user's; "" without a home.
func (e Environment) StateDir() string {
	if dir, _, _ := strings.Cut(e.Get("STATE_DIRECTORY"), ":"); filepath.IsAbs(dir) {
		return dir
	}
	if runtime.GOOS == "linux" && os.Geteuid() == 0 {
		return "/var/lib/fumehood"
	}
	return e.UserStateDir()
}

// RunDir returns the folder of live state: locks, sockets, claims.
func (e Environment) RunDir() string { return rundir.Default(e) }

// OwnPaths returns all folders of Fumehood, and the sources of the programs that make sandboxes. They may not exist.
func (e Environment) OwnPaths() []string {
	paths := []string{e.RunDir()}
	for _, dir := range []string{e.ConfigDir(), e.CacheDir(), e.StateDir(), e.UserStateDir()} {
		if dir != "" {
			paths = append(paths, dir)
		}
	}
	return append(paths, libexec.Places(libexec.Options{Dir: e.Get("FUMEHOOD_LIBEXEC"), CacheDir: e.CacheDir()})...)
}
