package libexec

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	modulePath   = "github.com/fumehood-dev/fumehood"
	buildTimeout = 5 * time.Minute // the first build also compiles the standard library
	keptBuilds   = 4               // the newest in the cache; older ones are removed
	maxSource    = 64 << 20        // bytes of source read for the key
	maxEntries   = 100_000         // files and folders examined for the key
)

// build returns the path of a program built from the source of this program. Its place in the cache is a hash of that
// source, so changed source costs one build.
func (k kind) build(o Options, name string) (string, error) {
	if o.CacheDir == "" {
		return "", errors.New("there is no cache folder for a build")
	}
	source, err := moduleSource()
	if err != nil {
		return "", err
	}
	key, err := k.sourceKey(source, name)
	if err != nil {
		return "", err
	}
	builds := filepath.Join(o.CacheDir, strings.TrimPrefix(k.name, "fumehood-"))
	path := filepath.Join(builds, key, name)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return "", err
	}
	// Programs in the cache will run, and others can write above it if HOME is /tmp, for example.
	if err := rundir.Judge(filepath.Dir(path), ""); err != nil {
		return "", &sandbox.Error{Kind: sandbox.Unavailable, Op: "use the cache", Err: err,
			Fix: "export XDG_CACHE_HOME=FOLDER, a folder that only you can write to"}
	}
	if err := judgeFile(path, ""); !errors.Is(err, fs.ErrNotExist) {
		return path, err
	}
	if err := k.compile(source, o.Arch, path); err != nil {
		return "", err
	}
	return path, k.prune(builds, key)
}

// sourceDir returns the folder of this module when this program was compiled; false if unknown. The working directory
// is never searched: anyone's files may be there, and the guest is trusted.
func sourceDir() (string, bool) {
	return filepath.Dir(filepath.Dir(filepath.Dir(sourceFile))), filepath.IsAbs(sourceFile)
}

// sourceFile is the path of this file when this program was compiled. -trimpath leaves the import path.
var _, sourceFile, _, _ = runtime.Caller(0)

// thisProgram returns the path of this program, or "". A user who can change it is trusted with its source too.
func thisProgram() string {
	executable, _ := os.Executable()
	return executable
}

// moduleSource returns sourceDir, if it still contains this module.
func moduleSource() (string, error) {
	dir, ok := sourceDir()
	if !ok {
		return "", errors.New("the location of this program's source is unknown")
	}
	name := filepath.Join(dir, "go.mod")
	if err := judgeFile(name, thisProgram()); err != nil { // something else may have replaced the source
		return "", err
	}
	mod, err := os.ReadFile(name)
	if err != nil {
		return "", err
	}
	if !strings.HasPrefix(string(mod), "module "+modulePath+"\n") {
		return "", fmt.Errorf("%s is not the source of %s", dir, modulePath)
	}
	return dir, nil
}

// notSource are folders without source, besides hidden ones.
var notSource = []string{"testdata", "bin", "build"}

// sourceKey hashes everything that the build depends on: the compiler, the target, the linker's options, and every file
// of the module except tests. Every file and folder must belong to root or this user.
func (k kind) sourceKey(source, name string) (string, error) {
	h := sha256.New()
	fmt.Fprintln(h, runtime.Version(), name, k.link)
	total, entries := 0, 0
	err := filepath.WalkDir(source, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() && path != source && (d.Name()[0] == '.' || slices.Contains(notSource, d.Name())) {
			return filepath.SkipDir
		}
		if entries++; entries > maxEntries {
			return fmt.Errorf("%s contains more files than this module", source)
		}
		if d.IsDir() {
			return rundir.Judge(path, thisProgram())
		}
		if !k.builtFrom(path[len(source)+1:]) {
			return nil
		}
		if err := judgeFile(path, thisProgram()); err != nil {
			return err
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		if total += len(data); total > maxSource {
			return fmt.Errorf("%s contains more source than this module", source)
		}
		fmt.Fprintln(h, path[len(source):], len(data))
		h.Write(data)
		return nil
	})
	if err != nil {
		return "", err
	}
	return hex.EncodeToString(h.Sum(nil)[:16]), nil
}

// builtFrom reports whether a file, by its path in the module, can be part of the program. Only the guest has files of
// other folders than its own.
func (k kind) builtFrom(name string) bool {
	if name == "go.mod" || name == "go.sum" {
		return true
	}
	if k != guest && filepath.Dir(name) != filepath.Clean(k.folder()) {
		return false
	}
	if base := filepath.Base(name); base[0] == '.' || base[0] == '_' { // such as the lock links of Emacs
		return false
	}
	switch filepath.Ext(name) {
	case ".go":
		return !strings.HasSuffix(name, "_test.go")
	case ".s", ".h", ".syso":
		return true
	}
	return false
}

// compile builds the program. The program gets its final path when it is complete, so builds may be concurrent.
func (k kind) compile(source, arch, path string) (err error) {
	tool, err := exec.LookPath("go")
	if err != nil {
		return err
	}
	temporary, err := os.CreateTemp(filepath.Dir(path), "build-")
	if err != nil {
		return err
	}
	temporary.Close()
	defer os.Remove(temporary.Name())
	ctx, cancel := context.WithTimeout(context.Background(), buildTimeout)
	defer cancel()
	cmd := exec.CommandContext(ctx, tool, "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w "+k.link, "-o",
		temporary.Name(), k.folder())
	cmd.Dir = source
	cmd.Env = append(os.Environ(), "CGO_ENABLED=0", "GOOS=linux", "GOARCH="+arch, "GOFLAGS=", "GOWORK=off")
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("go build %s: %w: %.2000s", k.folder(), err, out)
	}
	if err := os.Chmod(temporary.Name(), 0o500); err != nil {
		return err
	}
	return os.Rename(temporary.Name(), path)
}

// prune removes all builds but the newest ones and the one in use.
func (k kind) prune(dir, inUse string) error {
	builds, err := os.OpenRoot(dir)
	if err != nil {
		return err
	}
	defer builds.Close()
	entries, err := fs.ReadDir(builds.FS(), ".")
	if err != nil {
		return err
	}
	type aged struct {
		name string
		at   time.Time
	}
	var old []aged
	for _, e := range entries {
		programs, _ := fs.Glob(builds.FS(), e.Name()+"/"+k.name+"-*") // otherwise not a build
		if info, err := e.Info(); err == nil && len(programs) > 0 && e.Name() != inUse {
			old = append(old, aged{e.Name(), info.ModTime()})
		}
	}
	slices.SortFunc(old, func(a, b aged) int { return b.at.Compare(a.at) })
	for i := keptBuilds - 1; i < len(old); i++ {
		if err := builds.RemoveAll(old[i].name); err != nil {
			return err
		}
	}
	return nil
}
