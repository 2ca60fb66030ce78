package rootfs

import (
	"bufio"
	"bytes"
	"debug/elf"
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// commandPath is the search path of allowed commands, the PATH of sandboxes.
var commandPath = []string{"/usr/local/bin", "/usr/bin", "/bin"}

// support lists the module folders that an interpreter needs to start, by the beginning of its file name.
var support = map[string][]string{
	"python3": {"/usr/lib/python3*", "/usr/local/lib/python3*", "/etc/python3*"},
	"node":    {"/usr/share/nodejs", "/usr/share/node_modules", "/usr/lib/node_modules"},
	"perl":    {"/usr/share/perl*", "/usr/lib/*/perl*", "/usr/share/perl5"},
	"ruby":    {"/usr/lib/ruby", "/usr/share/rubygems-integration"},
}

// closure is the files and folders that a list of allowed commands needs.
type closure struct {
	root    *os.Root
	dir     string
	files   map[string]string // path in the sandbox -> host path
	exec    []string          // executable files: programs, interpreters, dynamic linkers
	folders []string
	left    int64 // bytes of files that may still be read
}

// Bounds of a closure: the root may be hostile.
const (
	maxClosure     = 10_000    // files
	maxClosureRead = 128 << 20 // bytes, most of which are in memory at once
)

// readerAt reads a file of a closure.
type readerAt struct {
	*closure
	file *os.File
}

func (r readerAt) ReadAt(p []byte, at int64) (int, error) {
	if r.left -= int64(len(p)); r.left < 0 {
		return 0, errClosure
	}
	return r.file.ReadAt(p, at)
}

var errClosure = &sandbox.Error{Kind: sandbox.TooLarge, Op: "commands",
	Msg: "the programs need more than 10,000 files, or their files have more than 128MiB of tables"}

// commandClosure finds the allowed programs below dir, their interpreters, and all shared libraries loaded at start.
func commandClosure(dir string, commands []string) (*closure, error) {
	if len(commands) == 0 {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "commands", Msg: "the list of allowed commands is empty"}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	c := &closure{root: root, dir: dir, files: map[string]string{}, left: maxClosureRead}
	for _, name := range commands {
		if err := c.command(name); err != nil {
			return nil, err
		}
	}
	for _, f := range c.folders {
		if err := c.folderLibraries(f); err != nil {
			return nil, err
		}
	}
	slices.Sort(c.exec)
	c.exec = slices.Compact(c.exec)
	return c, nil
}

func (c *closure) command(name string) error {
	if strings.ContainsRune(name, '/') || name == "" || name == "." || name == ".." {
		return sandbox.Invalidf("commands", "%q must be a program's name without a path", name)
	}
	for _, p := range commandPath {
		if err := c.program(path.Join(p, name)); !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return &sandbox.Error{Kind: sandbox.Invalid, Op: "commands", Msg: name + " is not in the root's " +
		strings.Join(commandPath, ", ")}
}

// program adds an executable file, with its interpreter or its libraries.
func (c *closure) program(at string) error {
	host, err := c.resolve(at)
	if err != nil {
		return err
	}
	if c.files[at] != "" {
		return nil
	}
	if len(c.files) == maxClosure {
		return errClosure
	}
	c.files[at] = host
	c.exec = append(c.exec, at)
	for prefix, patterns := range support {
		if strings.HasPrefix(path.Base(host), prefix) {
			c.addFolders(patterns)
		}
	}
	head := make([]byte, 256)
	f, err := os.Open(host)
	if err != nil {
		return err
	}
	n, err := f.Read(head)
	f.Close()
	if err != nil {
		return err
	}
	if script, ok := bytes.CutPrefix(head[:n], []byte("#!")); ok {
		line, _ := bufio.NewReader(bytes.NewReader(script)).ReadString('\n')
		fields := strings.Fields(line)
		if len(fields) == 0 {
			return nil
		}
		if path.Base(fields[0]) == "env" && len(fields) > 1 {
			if err := c.command(fields[1]); err != nil {
				return err
			}
		}
		return c.program(fields[0])
	}
	return c.libraries(host)
}

// resolve follows links below the root like the kernel inside, and returns the file's host path.
func (c *closure) resolve(at string) (string, error) {
	current := at
	for range 40 { // the kernel's limit on links
		rel := strings.TrimPrefix(path.Clean(current), "/")
		info, err := c.root.Lstat(rel)
		if err != nil {
			to, linked := c.throughTopLink(current)
			if !linked {
				return "", err
			}
			current = to
			continue
		}
		if info.Mode()&fs.ModeSymlink == 0 {
			if !info.Mode().IsRegular() {
				return "", &sandbox.Error{Kind: sandbox.Invalid, Op: "commands", Msg: at + " is not a regular file"}
			}
			return filepath.Join(c.dir, rel), nil
		}
		to, err := c.root.Readlink(rel)
		if err != nil {
			return "", err
		}
		if !path.IsAbs(to) {
			to = path.Join(path.Dir(current), to)
		}
		current = to
	}
	return "", &sandbox.Error{Kind: sandbox.Invalid, Op: "commands", Msg: at + " contains too many links"}
}

// throughTopLink replaces the top folder of a path by its target, and reports whether it is a link, such as
// /bin -> usr/bin.
func (c *closure) throughTopLink(at string) (string, bool) {
	top, rest, below := strings.Cut(strings.TrimPrefix(path.Clean("/"+at), "/"), "/")
	to, err := os.Readlink(filepath.Join(c.dir, top))
	if err != nil || !below {
		return at, false
	}
	return path.Join("/", to, rest), true
}

// libraryPath is the dynamic linker's search path (ld.so(8)); the triplet folders are Debian's and Ubuntu's.
func (c *closure) libraryPath() []string {
	paths := []string{"/usr/local/lib", "/lib", "/usr/lib", "/lib64", "/usr/lib64"}
	for _, pattern := range []string{"/usr/lib/*-linux-gnu*", "/usr/local/lib/*-linux-gnu*"} {
		found, _ := filepath.Glob(filepath.Join(c.dir, pattern))
		for _, f := range found {
			paths = append(paths, "/"+strings.TrimPrefix(strings.TrimPrefix(f, c.dir), "/"))
		}
	}
	return paths
}

// libraries adds the dynamic linker and the shared libraries of an ELF file, recursively.
func (c *closure) libraries(host string) error {
	file, err := os.Open(host)
	if err != nil {
		return err
	}
	defer file.Close()
	f, err := elf.NewFile(readerAt{c, file})
	if c.left < 0 {
		return errClosure
	}
	if err != nil {
		return nil // not ELF: the kernel will not run it, or it is data
	}
	for _, p := range f.Progs {
		if p.Type != elf.PT_INTERP || p.Filesz > 4096 {
			continue
		}
		linker := make([]byte, p.Filesz)
		if _, err := p.ReadAt(linker, 0); err != nil {
			return err
		}
		if err := c.program(strings.TrimRight(string(linker), "\x00")); err != nil {
			return err
		}
	}
	needed, err := f.ImportedLibraries()
	if c.left < 0 {
		return errClosure
	}
	if err != nil {
		return nil
	}
	runpath, _ := f.DynString(elf.DT_RUNPATH)
	rpath, _ := f.DynString(elf.DT_RPATH)
	search := c.libraryPath()
	for _, p := range append(runpath, rpath...) {
		for _, q := range strings.Split(p, ":") {
			search = append(search, strings.ReplaceAll(q, "$ORIGIN", strings.TrimPrefix(filepath.Dir(host), c.dir)))
		}
	}
	for _, lib := range needed {
		if err := c.library(lib, search); err != nil {
			return err
		}
	}
	return nil
}

func (c *closure) library(name string, search []string) error {
	for _, dir := range search {
		at := path.Join(dir, name)
		host, err := c.resolve(at)
		if err != nil {
			continue
		}
		if c.files[at] != "" {
			return nil
		}
		if len(c.files) == maxClosure {
			return errClosure
		}
		c.files[at] = host
		return c.libraries(host)
	}
	return nil // the program handles a missing one
}

func (c *closure) addFolders(patterns []string) {
	for _, pattern := range patterns {
		found, _ := filepath.Glob(filepath.Join(c.dir, pattern))
		for _, f := range found {
			at := "/" + strings.TrimPrefix(strings.TrimPrefix(f, c.dir), "/")
			if !slices.Contains(c.folders, at) {
				c.folders = append(c.folders, at)
			}
		}
	}
}

// folderLibraries adds the libraries of an interpreter's extension modules.
func (c *closure) folderLibraries(folder string) error {
	modules, _ := filepath.Glob(filepath.Join(c.dir, folder, "lib-dynload", "*.so"))
	for _, m := range modules {
		if err := c.libraries(m); err != nil {
			return err
		}
	}
	return nil
}

// Restricted returns the read-only part of a root with only the allowed commands and the files they need, and the
// executable files.
func Restricted(dir string, commands []string, user sandbox.User) ([]confine.Step, []string, error) {
	c, err := commandClosure(dir, commands)
	if err != nil {
		return nil, nil, err
	}
	var steps []confine.Step
	for _, f := range c.folders {
		s, err := bind(dir, f, filepath.Join(dir, f))
		if err != nil {
			return nil, nil, err
		}
		steps = append(steps, s)
	}
	for _, link := range []string{"bin", "sbin", "lib", "lib32", "lib64"} {
		if to, err := os.Readlink(filepath.Join(dir, link)); err == nil {
			steps = append(steps, confine.Step{Do: confine.Symlink, Target: link, Source: to})
		}
	}
	seen := map[string]bool{}
	for at, host := range c.files {
		at, _ = c.throughTopLink(at) // targets contain no links
		if !seen[at] && !c.inFolder(at) {
			seen[at] = true
			s, err := bind(dir, at, host)
			if err != nil {
				return nil, nil, err
			}
			steps = append(steps, s)
		}
	}
	etc, err := etcSteps(dir, user)
	return append(steps, etc...), c.exec, err
}

func (c *closure) inFolder(at string) bool {
	return slices.ContainsFunc(c.folders, func(f string) bool { return strings.HasPrefix(at, f+"/") })
}
