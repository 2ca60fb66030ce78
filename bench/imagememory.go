package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/client"
	"github.com/fumehood-dev/fumehood/test/liveserver"
)

// pythonImage is an image of this host's Python.
const pythonImage = "bench-python"

const imageSandboxes = 100

// importPython imports pythonImage into a store below a new home folder.
func (r *report) importPython(ctx context.Context, dir string) (home string, err error) {
	root, home := filepath.Join(dir, "root"), filepath.Join(dir, "python-home")
	if err := errors.Join(os.Mkdir(root, 0o755), os.Mkdir(home, 0o755)); err != nil {
		return "", err
	}
	if err := copyPython(ctx, root); err != nil {
		return "", err
	}
	_, err = r.took(ctx, home, r.binary, "image", "import", root, "--name", pythonImage)
	return home, err
}

// imageMemory compares the private memory of idle sandboxes of one image with that of sandboxes of the host's root.
func (r *report) imageMemory(ctx context.Context, home string) (err error) {
	s, err := liveserver.Start(ctx, liveserver.Options{Binary: r.binary, Args: []string{"--warm", "0"},
		Env: []string{"HOME=" + home}})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.Stop()) }()
	c, err := client.New(client.Config{Server: s.URL})
	if err != nil {
		return err
	}
	defer c.Close()
	f := &r.figures.images
	most := r.most(imageSandboxes)
	f.hostPrivate, f.sandboxes, err = r.idleMemory(ctx, c, s, most, api.SandboxRequest{Name: "host"})
	if err == nil {
		onImage := api.SandboxRequest{Name: "image", Isolation: api.Isolation{Image: pythonImage}}
		f.imagePrivate, _, err = r.idleMemory(ctx, c, s, most, onImage)
	}
	return err
}

// copyPython copies this host's Python and a shell, with their libraries, into a root.
func copyPython(ctx context.Context, root string) error {
	const find = "import os, sys, _ctypes; print(os.path.realpath(sys.executable), os.path.dirname(os.__file__), " +
		"_ctypes.__file__)"
	found, err := exec.CommandContext(ctx, pythonPath, "-I", "-c", find).Output()
	if err != nil {
		return fmt.Errorf("find Python's files: %w", err)
	}
	files := append(strings.Fields(string(found)), pythonPath, "/usr/bin/sh")
	libraries, err := exec.CommandContext(ctx, "ldd", files[0], files[2], "/usr/bin/sh").Output()
	if err != nil {
		return fmt.Errorf("find Python's libraries: %w", err)
	}
	for word := range bytes.FieldsSeq(libraries) {
		if file := string(word); strings.HasPrefix(file, "/lib") && !strings.HasSuffix(file, ":") {
			files = append(files, "/usr"+file)
		}
	}
	for _, link := range []string{"bin", "lib", "lib64"} {
		if err := os.Symlink("usr/"+link, filepath.Join(root, link)); err != nil {
			return err
		}
	}
	args := append([]string{"-rL", "--parents", "--target-directory", root}, files...)
	if out, err := exec.CommandContext(ctx, "cp", args...).CombinedOutput(); err != nil {
		return fmt.Errorf("copy Python: %w: %s", err, out)
	}
	return nil
}
