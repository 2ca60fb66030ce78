package hostfiles

import (
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strconv"
	"strings"
	"unicode"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// maxNumbered bounds the numbers that FreeName tries.
const maxNumbered = 100_000

// Output writes the files that a sandbox returns to a directory of this host. Their names and contents are hostile: it
// never writes outside the directory, through a link, or, unless it may overwrite, over existing files.
type Output struct {
	root      *os.Root
	overwrite bool
	parent    *os.Root // the nearest folder that existed before
	made      []string // folders made in parent, innermost first
}

// OpenOutput makes the directory. Call it before anything runs, so that a failure loses no result.
func (h Host) OpenOutput(dir string, overwrite bool) (_ *Output, err error) {
	o := &Output{overwrite: overwrite}
	defer func() {
		if err != nil {
			o.Close()
			err = Error("--out", err)
		}
	}()
	dir, err = h.Resolve(dir)
	if err != nil {
		return nil, err
	}
	parent := dir
	for ; ; parent = filepath.Dir(parent) {
		if _, err := os.Lstat(parent); !errors.Is(err, fs.ErrNotExist) || parent == filepath.Dir(parent) {
			break
		}
	}
	if o.parent, err = nolink.OpenRoot(parent); err != nil {
		return nil, err
	}
	below, err := filepath.Rel(parent, dir)
	if err != nil {
		return nil, err
	}
	if err := o.parent.MkdirAll(below, 0o755); err != nil {
		return nil, err
	}
	for at := below; at != "."; at = filepath.Dir(at) {
		o.made = append(o.made, at)
	}
	o.root, err = nolink.OpenRoot(dir)
	return o, err
}

// Close closes the directory.
func (o *Output) Close() {
	for _, root := range []*os.Root{o.root, o.parent} {
		if root != nil {
			_ = root.Close()
		}
	}
}

// Undo removes the empty folders that OpenOutput made. A nil Output has none.
func (o *Output) Undo() {
	if o == nil {
		return
	}
	for _, dir := range o.made {
		_ = o.parent.Remove(dir)
	}
}

// Write writes one file, whole or not at all.
func (o *Output) Write(f sandbox.File) error {
	return o.WriteFrom(f.Path, f.Mode, func(w io.Writer) error {
		_, err := w.Write(f.Data)
		return err
	})
}

// WriteFrom is Write with the content from a function.
func (o *Output) WriteFrom(name string, mode uint32, content func(io.Writer) error) error {
	name, err := LocalName(name)
	if err != nil {
		return err
	}
	if err := o.MakeFolders(filepath.Dir(name)); err != nil {
		return err
	}
	info, err := o.root.Lstat(name)
	switch {
	case errors.Is(err, fs.ErrNotExist):
	case err != nil:
		return err
	case info.IsDir():
		return errors.New("a folder of that name exists")
	case !o.overwrite:
		return errors.New("a file of that name exists; --overwrite replaces it")
	}
	temporary := filepath.Join(filepath.Dir(name), ".fumehood-"+rand.Text())
	w, err := o.root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_EXCL, outMode(mode))
	if err != nil {
		return err
	}
	err = content(w)
	if closed := w.Close(); err == nil {
		err = closed
	}
	if err == nil {
		err = o.root.Rename(temporary, name) // this replaces a link and does not follow it
	}
	if err != nil {
		_ = o.root.Remove(temporary) // the first error says what happened
	}
	return err
}

// MakeFolders makes a folder and those above it. It refuses links among them.
func (o *Output) MakeFolders(dir string) error {
	if dir == "." {
		return nil
	}
	at := ""
	for element := range strings.SplitSeq(filepath.ToSlash(dir), "/") {
		at = filepath.Join(at, element)
		info, err := o.root.Lstat(at)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			if err := o.root.Mkdir(at, 0o755); err != nil {
				return err
			}
		case err != nil:
			return err
		case !info.IsDir():
			return fmt.Errorf("%s is not a folder", at)
		}
	}
	return nil
}

// outMode returns the mode of a new file: only the owner's execute bit of the sandbox's mode counts.
func outMode(mode uint32) fs.FileMode {
	if mode&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

// LocalName converts a path from the sandbox to one of this system, or refuses it.
func LocalName(name string) (string, error) {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", errors.New("its name contains control characters")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }) {
		return "", errors.New("its name contains marks of text direction")
	}
	if path.Clean(name) != name || path.IsAbs(name) || name == "." {
		return "", errors.New("its name is not a plain relative path")
	}
	local, err := filepath.Localize(name) // refuses "..", and names that are invalid on this system
	if err != nil {
		return "", errors.New("its name is not valid on this system")
	}
	return local, nil
}

// FreeName returns the first name of the form BEFORE N AFTER that does not exist in the directory.
func (o *Output) FreeName(before, after string) (string, error) {
	for n := 1; n <= maxNumbered; n++ {
		name := before + strconv.Itoa(n) + after
		if _, err := o.root.Lstat(name); err != nil {
			return name, nil // Write reports any other failure
		}
	}
	return "", fmt.Errorf("the folder has %d files of that kind", maxNumbered)
}
