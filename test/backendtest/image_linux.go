package backendtest

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// KeepsImage tests that the image of a living box cannot be removed after the death of its server, and can after the
// end of the box.
func KeepsImage(t *testing.T, open func(*image.Roots) sandbox.Backend, accept ...string) {
	root := t.TempDir()
	store, err := image.Open(filepath.Join(t.TempDir(), "store"))
	if err == nil {
		err = os.WriteFile(filepath.Join(root, "file"), nil, 0o644)
	}
	if err == nil {
		_, err = store.Import(t.Context(), root, "small", func(string) {})
	}
	if err != nil {
		t.Fatal(err)
	}
	b := open(&image.Roots{Open: func() (*image.Store, error) { return store, nil }})
	s := spec()
	s.Lifetime.Living, s.Root.Image, s.AllowUnenforced = true, "small", accept
	box, err := b.Create(within(t), s)
	if err != nil {
		t.Fatal(err)
	}
	lock := box.(interface{ ImageLock(*os.File) *os.File }).ImageLock(nil)
	if err := lock.Close(); err != nil { // without unlocking it, as the death of this process does
		t.Error(err)
	}
	if err := store.Remove("small"); sandbox.KindOf(err) != sandbox.Exists {
		t.Errorf("the image of a living box was removed: %v", err)
	}
	if err := box.Close(); err != nil {
		t.Error(err)
	}
	if err := store.Remove("small"); err != nil {
		t.Error(err)
	}
}

// PythonImage is the name of the image of PythonImages.
const PythonImage = "python"

// PythonImages returns a store with one image: this host's Python and a shell, with their libraries.
func PythonImages(t testing.TB) *image.Roots {
	t.Helper()
	const find = "import os, sys, _ctypes; print(os.path.realpath(sys.executable), os.path.dirname(os.__file__), " +
		"_ctypes.__file__)"
	python, err := exec.Command("/usr/bin/python3", "-I", "-c", find).Output()
	if err != nil {
		Skip(t, "languages", "/usr/bin/python3: "+err.Error())
	}
	files := append(strings.Fields(string(python)), "/usr/bin/python3", "/usr/bin/bash", "/usr/bin/sh")
	files = append(files, librariesOf(t, files[0], files[2], "/usr/bin/bash", "/usr/bin/sh")...)
	root := t.TempDir()
	copyFiles(t, root, files)
	store, err := image.Open(filepath.Join(t.TempDir(), "store"))
	if err == nil {
		_, err = store.Import(t.Context(), root, PythonImage, func(string) {})
	}
	if err != nil {
		t.Fatal(err)
	}
	return &image.Roots{Open: func() (*image.Store, error) { return store, nil }}
}

// copyFiles copies files below /usr into a root.
func copyFiles(t testing.TB, root string, files []string) {
	t.Helper()
	for _, link := range []string{"bin", "lib", "lib64", "sbin"} {
		if err := os.Symlink("usr/"+link, filepath.Join(root, link)); err != nil {
			t.Fatal(err)
		}
	}
	copied := exec.Command("cp", append([]string{"-rL", "--parents", "--target-directory", root}, files...)...)
	if out, err := copied.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
}

// librariesOf returns the files that the loader of a C library maps for programs, below /usr.
func librariesOf(t testing.TB, programs ...string) (files []string) {
	t.Helper()
	out, err := exec.Command("ldd", programs...).Output()
	if err != nil {
		t.Fatal(err)
	}
	for word := range bytes.FieldsSeq(out) {
		if file := string(word); strings.HasPrefix(file, "/lib") && !strings.HasSuffix(file, ":") {
			files = append(files, "/usr"+file)
		}
	}
	return files
}
