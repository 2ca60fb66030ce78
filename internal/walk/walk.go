// Package walk visits the files below a folder that may have millions of entries, with long names.
package walk

import (
	"errors"
	"io"
	"io/fs"
	"path"
)

// batch is how many entries of a folder are read at once.
const batch = 256

// Dir calls f for each file below a folder: a folder before its files, otherwise in the order of the disk. It returns
// the first error. If f returns fs.SkipDir for a folder, Dir skips it. Unlike fs.WalkDir, it holds few entries of a
// folder at a time, and a descriptor of each folder above the current one.
func Dir(files fs.FS, dir string, f func(name string, e fs.DirEntry) error) error {
	file, err := files.Open(dir)
	if err != nil {
		return err
	}
	defer file.Close()
	list, ok := file.(fs.ReadDirFile)
	if !ok {
		return &fs.PathError{Op: "readdir", Path: dir, Err: errors.ErrUnsupported}
	}
	for {
		entries, err := list.ReadDir(batch)
		for _, e := range entries {
			if err := visit(files, path.Join(dir, e.Name()), e, f); err != nil {
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func visit(files fs.FS, name string, e fs.DirEntry, f func(string, fs.DirEntry) error) error {
	err := f(name, e)
	switch {
	case !e.IsDir():
		return err
	case errors.Is(err, fs.SkipDir):
		return nil
	case err != nil:
		return err
	}
	return Dir(files, name, f)
}
