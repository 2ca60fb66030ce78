// Package libexec finds the guest program: embedded in this one (build tag embed), in the folder that the user names, beside
// the executable, or built once from the module's own source into a cache.
package libexec

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/glovebox-dev/glovebox/sandbox"
)

const maxProgram = 64 << 20 // bytes of a guest program; ours has some 3 MiB

const op = "find the guest program"

// Options say where to look.
type Options struct {
	Dir      string // a folder that holds the program; it comes before all other places but the embedded one, and must hold it
	CacheDir string // where a program that was built from source is kept; "" is not to build one
	Arch     string // of the guest, as Go names it; "" is that of this program
}

// Program is a guest program that was found.
type Program struct {
	Source string // where it comes from, for people: "embedded", or its path
	data   string // of an embedded one; "" for a file
	path   string
}

// Guest finds the guest program. Where there is none, the error is Unavailable and says how to make one.
func Guest(o Options) (Program, error) {
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	name := "glovebox-guest-linux-" + o.Arch
	if o.Dir != "" {
		return inDir(o.Dir, name)
	}
	if data, ok := embedded[o.Arch]; ok {
		return Program{Source: "embedded", data: data}, nil
	}
	if executable, err := os.Executable(); err == nil {
		path := filepath.Join(filepath.Dir(executable), name)
		if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
			return Program{Source: path, path: path}, nil
		}
	}
	path, err := build(o, name)
	if err != nil {
		return Program{}, &sandbox.Error{Kind: sandbox.Unavailable, Op: op, Msg: name + " is not part of this program nor beside it",
			Mend: "run make build and use bin/glovebox", Err: err}
	}
	return Program{Source: path, path: path}, nil
}

func inDir(dir, name string) (Program, error) {
	path := filepath.Join(dir, name)
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = errors.New("is not a regular file")
	}
	if err != nil {
		return Program{}, &sandbox.Error{Kind: sandbox.Unavailable, Op: op, Err: err,
			Mend: "the folder for the guest program must hold " + name + "; make build makes it in internal/libexec/bin"}
	}
	return Program{Source: path, path: path}, nil
}

// Open returns the program as a file that nothing can change from now on, ready to be executed: a sealed memory file where the
// system has them, else an unlinked copy. Whoever executes it must keep it open; Close it after.
func (p Program) Open() (*os.File, error) {
	content, err := p.content()
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: op, Err: err}
	}
	defer content.Close()
	f, err := seal(content)
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "copy the guest program", Err: err}
	}
	return f, nil
}

func (p Program) content() (io.ReadCloser, error) {
	if p.data != "" {
		return io.NopCloser(strings.NewReader(p.data)), nil
	}
	f, err := os.Open(p.path)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxProgram) {
		err = fmt.Errorf("%s is not a regular file of at most %s", p.path, sandbox.FormatBytes(maxProgram))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// unlinked copies content into a temporary file without a name, and returns it opened for reading only, as a file that is
// open for writing cannot be executed (ETXTBSY).
func unlinked(content io.Reader) (_ *os.File, err error) {
	w, err := os.CreateTemp("", "glovebox-guest-")
	if err != nil {
		return nil, err
	}
	defer func() {
		err = errors.Join(err, os.Remove(w.Name()))
	}()
	_, err = io.Copy(w, content)
	if err == nil {
		err = w.Chmod(0o500)
	}
	if err = errors.Join(err, w.Close()); err != nil {
		return nil, err
	}
	return os.Open(w.Name())
}
