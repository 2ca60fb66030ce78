package main

import (
	"archive/tar"
	"archive/zip"
	"compress/gzip"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// tree lays out the installation of a target below top, a folder with the name of its archive.
func (r *release) tree(top, program string, parts []component) error {
	type file struct {
		from, to string
		mode     fs.FileMode
	}
	files := []file{
		{program, filepath.Join("bin", filepath.Base(program)), 0o755},
		{filepath.Join(r.source, "LICENSE"), "share/doc/fumehood/LICENSE", 0o644},
		{filepath.Join(r.source, "README.md"), "share/doc/fumehood/README.md", 0o644},
		{filepath.Join(r.source, "SECURITY.md"), "share/doc/fumehood/SECURITY.md", 0o644},
		{filepath.Join(r.source, "CHANGELOG.md"), "share/doc/fumehood/CHANGELOG.md", 0o644},
		{filepath.Join(r.pages, "fumehood.bash"), "share/bash-completion/completions/fumehood", 0o644},
		{filepath.Join(r.pages, "_fumehood"), "share/zsh/site-functions/_fumehood", 0o644},
		{filepath.Join(r.pages, "fumehood.fish"), "share/fish/vendor_completions.d/fumehood.fish", 0o644},
	}
	manuals, err := filepath.Glob(filepath.Join(r.pages, "man", "*.1"))
	if err != nil {
		return err
	}
	for _, m := range manuals {
		files = append(files, file{m, filepath.Join("share/man/man1", filepath.Base(m)), 0o644})
	}
	for _, f := range files {
		if err := r.copy(f.from, filepath.Join(top, f.to), f.mode); err != nil {
			return err
		}
	}
	licenses, err := r.licenses(parts)
	if err != nil {
		return err
	}
	return r.write(filepath.Join(top, "share/doc/fumehood/third-party-licenses"), []byte(licenses), 0o644)
}

// copy copies a file, with the time of the release.
func (r *release) copy(from, to string, mode fs.FileMode) error {
	content, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	return r.write(to, content, mode)
}

// write writes a file, with the time of the release.
func (r *release) write(to string, content []byte, mode fs.FileMode) error {
	err := os.MkdirAll(filepath.Dir(to), 0o755)
	if err == nil {
		err = os.WriteFile(to, content, mode)
	}
	if err == nil {
		err = os.Chmod(to, mode) // whatever the umask
	}
	if err == nil {
		err = os.Chtimes(to, r.time, r.time)
	}
	return err
}

// archive packs a tree for its system.
func (r *release) archive(tree, system string) error {
	name := filepath.Join(r.out, filepath.Base(tree))
	if system == "windows" {
		return r.written(name+".zip", func(w io.Writer) error { return r.zip(w, tree) })
	}
	return r.written(name+".tar.gz", func(w io.Writer) error {
		z, err := gzip.NewWriterLevel(w, gzip.BestCompression)
		if err != nil {
			return err
		}
		return errors.Join(r.tar(z, tree), z.Close())
	})
}

// written makes a file by a function.
func (r *release) written(path string, write func(io.Writer) error) error {
	f, err := os.OpenFile(path, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	return errors.Join(write(f), f.Close())
}

// walk calls do for all files of a tree, in the order of their names. Names begin with the tree's own.
func walk(tree string, do func(name string, info fs.FileInfo, content []byte) error) error {
	return filepath.WalkDir(tree, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		content, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		name := strings.TrimPrefix(path, filepath.Dir(tree)+string(filepath.Separator))
		return do(filepath.ToSlash(name), info, content)
	})
}

func (r *release) tar(w io.Writer, tree string) error {
	t := tar.NewWriter(w)
	err := walk(tree, func(name string, info fs.FileInfo, content []byte) error {
		header := tar.Header{Name: name, Mode: int64(info.Mode().Perm()), Size: info.Size(), ModTime: r.time,
			Format: tar.FormatPAX}
		if err := t.WriteHeader(&header); err != nil {
			return err
		}
		_, err := t.Write(content)
		return err
	})
	return errors.Join(err, t.Close())
}

func (r *release) zip(w io.Writer, tree string) error {
	z := zip.NewWriter(w)
	err := walk(tree, func(name string, info fs.FileInfo, content []byte) error {
		header := zip.FileHeader{Name: name, Method: zip.Deflate, Modified: r.time}
		header.SetMode(info.Mode().Perm())
		entry, err := z.CreateHeader(&header)
		if err != nil {
			return err
		}
		_, err = entry.Write(content)
		return err
	})
	return errors.Join(err, z.Close())
}
