package main

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

// filesOut writes the files of a result to a directory of the host. Their names and contents are hostile: it never writes outside the
// directory, through a link, or, without --overwrite, over existing files.
type filesOut struct {
	root      *os.Root
	overwrite bool
	above     *os.Root // the existing parent, and the folders made in it, innermost first
	made      []string
}

// openFilesOut makes the directory before anything runs, so that a failure costs no result.
func (a *app) openFilesOut(dir string, overwrite bool) (_ *filesOut, err error) {
	o := &filesOut{overwrite: overwrite}
	defer func() {
		if err != nil {
			o.close()
			err = &sandbox.Error{Kind: sandbox.KindOf(invalid(err)), Op: "--out", Err: err}
		}
	}()
	dir, err = a.named(dir)
	if err != nil {
		return nil, err
	}
	above := dir
	for ; ; above = filepath.Dir(above) {
		if _, err := os.Lstat(above); !errors.Is(err, fs.ErrNotExist) || above == filepath.Dir(above) {
			break
		}
	}
	if o.above, err = nolink.OpenRoot(above); err != nil {
		return nil, err
	}
	below, err := filepath.Rel(above, dir)
	if err != nil {
		return nil, err
	}
	if err := o.above.MkdirAll(below, 0o755); err != nil {
		return nil, err
	}
	for at := below; at != "."; at = filepath.Dir(at) {
		o.made = append(o.made, at)
	}
	o.root, err = nolink.OpenRoot(dir)
	return o, err
}

func (o *filesOut) close() {
	for _, root := range []*os.Root{o.root, o.above} {
		if root != nil {
			_ = root.Close()
		}
	}
}

// unmake removes the folders that openFilesOut made, if nothing ran. Folders that are no longer empty stay.
func (o *filesOut) unmake() {
	if o == nil {
		return
	}
	for _, dir := range o.made {
		_ = o.above.Remove(dir)
	}
}

// write writes one file to the directory, whole or not at all.
func (o *filesOut) write(f sandbox.File) error {
	return o.fill(f.Path, f.Mode, func(w io.Writer) error {
		_, err := w.Write(f.Data)
		return err
	})
}

// fill is write for content that comes from a function.
func (o *filesOut) fill(name string, mode uint32, content func(io.Writer) error) error {
	name, err := checkOutName(name)
	if err != nil {
		return err
	}
	if err := o.makeFolders(filepath.Dir(name)); err != nil {
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

// makeFolders makes the folders above a file. It refuses any link among them.
func (o *filesOut) makeFolders(dir string) error {
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

// outMode keeps only the owner's execute bit of the sandbox's mode.
func outMode(mode uint32) fs.FileMode {
	if mode&0o100 != 0 {
		return 0o755
	}
	return 0o644
}

// parseMode reads permission bits in octal; anything else is 0644.
func parseMode(text string) uint32 {
	mode, err := strconv.ParseUint(text, 8, 32)
	if err != nil || mode > 0o777 {
		return 0o644
	}
	return uint32(mode)
}

// checkOutName converts a path from the sandbox to one of this system, or refuses it.
func checkOutName(name string) (string, error) {
	if !utf8.ValidString(name) || strings.ContainsFunc(name, unicode.IsControl) {
		return "", errors.New("its name holds control characters")
	}
	if strings.ContainsFunc(name, func(r rune) bool { return unicode.Is(unicode.Bidi_Control, r) }) {
		return "", errors.New("its name holds marks of text direction")
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
