// Package libexec finds the programs that sandboxes need: the guest, gVisor's runsc and the compiler of TypeScript.
// They are embedded in this program (build tag embed), in the folder that the user names, beside the executable, or
// built once from the module's own source into a cache.
//
// These programs are as trusted as this one. A file or source that anyone but root and this user could have written is
// refused (rundir.Judge).
package libexec

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"strings"

	"github.com/klauspost/compress/zstd"

	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxProgram = 128 << 20 // bytes of a program; the guest has about 3 MiB, runsc 32

type kind struct {
	name  string // of its file, followed by -linux- and the processor
	title string
	link  string // extra linker options; the Makefile has the same
}

const zstdMagic = "\x28\xb5\x2f\xfd" // RFC 8878, 3.1.1

var (
	guest = kind{name: "fumehood-guest", title: "the guest program"}
	runsc = kind{name: "fumehood-runsc", title: "gVisor's runsc", link: "-E fumehood_entry"}
	tools = []kind{{name: "fumehood-typescript", title: "the compiler of TypeScript"}}
)

func (k kind) unavailable(msg, fix string, err error) error {
	return &sandbox.Error{Kind: sandbox.Unavailable, Op: "find " + k.title, Msg: msg, Fix: fix, Err: err}
}

func (k kind) folder() string { return "./cmd/" + k.name }

// embedded has the embedded programs by file name, as they are or compressed by Zstandard. It is empty without the tag
// embed.
var embedded = map[string]string{}

// Options are the places to look in.
type Options struct {
	Dir      string // a folder that must contain the program; it precedes all but an embedded program
	CacheDir string // keeps a program built from source; "" builds none
	Arch     string // the guest's processor, by Go's name; "" is this program's
}

// Program is a program that was found.
type Program struct {
	Source string // its origin, for messages: "embedded", or its path
	kind   kind
	data   string // of an embedded program; "" for a file
}

// Guest finds the guest program. If there is none, the error is Unavailable and says how to make one.
func Guest(o Options) (Program, error) { return guest.find(o) }

// Runsc finds gVisor's runsc, like Guest.
func Runsc(o Options) (Program, error) { return runsc.find(o) }

// Tool opens a program that enters sandboxes with the code, by its name without "fumehood-", for this processor.
func Tool(o Options, name string) (io.ReadCloser, error) {
	for _, k := range tools {
		if k.name != "fumehood-"+name {
			continue
		}
		p, err := k.find(o)
		if err != nil {
			return nil, err
		}
		content, err := p.content()
		if err != nil {
			return nil, k.unavailable("", "", err)
		}
		return content, nil
	}
	return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "find a tool", Msg: "there is no " + name}
}

func (k kind) find(o Options) (Program, error) {
	if o.Arch == "" {
		o.Arch = runtime.GOARCH
	}
	name := k.name + "-linux-" + o.Arch
	if o.Dir != "" {
		return k.inDir(o.Dir, name)
	}
	if data, ok := embedded[name]; ok {
		return Program{Source: "embedded", kind: k, data: data}, nil
	}
	path, besideErr := beside(name)
	if besideErr == nil {
		return Program{Source: path, kind: k}, nil
	}
	path, err := k.build(o, name)
	if err != nil {
		msg := name + " is neither part of this program nor beside it"
		if !errors.Is(besideErr, fs.ErrNotExist) {
			msg = name + " is not part of this program, and the file beside it is not trusted: " + besideErr.Error()
		}
		return Program{}, k.unavailable(msg, "make build, then use bin/fumehood", err)
	}
	return Program{Source: path, kind: k}, nil
}

// beside returns the path of a program beside this one, and an error if it cannot be used.
func beside(name string) (string, error) {
	executable, err := os.Executable()
	if err != nil {
		return "", err
	}
	path := filepath.Join(filepath.Dir(executable), name)
	return path, judgeFile(path, executable)
}

// judgeFile refuses a file that anyone but root, this user or the owner of given could have written (rundir.Judge).
func judgeFile(path, given string) error {
	if err := rundir.Judge(path, given); err != nil {
		return err
	}
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a regular file", path)
	}
	return err
}

// Places returns the paths of the programs for this processor and of their source, which may not exist: a user who can
// write there can replace the next guest.
func Places(o Options) []string {
	var places []string
	for _, k := range append([]kind{guest, runsc}, tools...) {
		name := k.name + "-linux-" + runtime.GOARCH
		if o.Dir != "" {
			if path, err := filepath.Abs(filepath.Join(o.Dir, name)); err == nil {
				places = append(places, path)
			}
			continue
		}
		if _, ok := embedded[name]; ok || k == runsc && runtime.GOOS != "linux" {
			continue
		}
		path, err := beside(name)
		if path != "" {
			places = append(places, path)
		}
		if source, ok := sourceDir(); ok && err != nil && o.CacheDir != "" {
			places = append(places, source)
		}
	}
	return places
}

func (k kind) inDir(dir, name string) (Program, error) {
	path := filepath.Join(dir, name)
	err := judgeFile(path, dir)
	if sandbox.FixOf(err) != "" { // it exists
		return Program{}, k.unavailable("", "", err)
	}
	if err != nil {
		return Program{}, k.unavailable("",
			"the folder for "+k.title+" must contain "+name+"; make build puts it into internal/libexec/bin", err)
	}
	return Program{Source: path, kind: k}, nil
}

// Open returns the program as an immutable file that is ready to execute: a sealed memory file if the system has them,
// otherwise an unlinked copy. Close it after the execution.
func (p Program) Open() (*os.File, error) {
	content, err := p.content()
	if err != nil {
		return nil, p.kind.unavailable("", "", err)
	}
	defer content.Close()
	f, err := seal(p.kind.name, content)
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "copy " + p.kind.title, Err: err}
	}
	return f, nil
}

func (p Program) content() (io.ReadCloser, error) {
	if strings.HasPrefix(p.data, zstdMagic) {
		d, err := zstd.NewReader(strings.NewReader(p.data), zstd.WithDecoderMaxMemory(maxProgram))
		if err != nil {
			return nil, err
		}
		return d.IOReadCloser(), nil
	}
	if p.data != "" {
		return io.NopCloser(strings.NewReader(p.data)), nil
	}
	f, err := os.Open(p.Source)
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && (!info.Mode().IsRegular() || info.Size() > maxProgram) {
		err = fmt.Errorf("%s is not a regular file of at most %s", p.Source, sandbox.FormatBytes(maxProgram))
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// unlinked copies content into an unlinked temporary file, and returns it opened for reading only, because a file that
// is open for writing cannot be executed (ETXTBSY).
func unlinked(name string, content io.Reader) (_ *os.File, err error) {
	w, err := os.CreateTemp("", name+"-")
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, os.Remove(w.Name())) }()
	_, err = io.Copy(w, content)
	if err == nil {
		err = w.Chmod(0o500)
	}
	made, statErr := w.Stat()
	if err = errors.Join(err, statErr, w.Close()); err != nil {
		return nil, err
	}
	f, err := os.Open(w.Name())
	if err != nil {
		return nil, err
	}
	// If others can write to the temporary folder, they may have replaced the file.
	if info, err := f.Stat(); err != nil || !os.SameFile(info, made) {
		return nil, errors.Join(fmt.Errorf("%s was replaced", w.Name()), err, f.Close())
	}
	return f, nil
}
