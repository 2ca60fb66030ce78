package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"syscall"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Bounds of files that list requirements.
const (
	maxRequirementFiles = 20
	maxRequirementText  = 1 << 20 // bytes of all that one run reads: reading takes some 0.1 µs a byte, without a slot
)

// readRequirements returns the requirements in the files that the code installs, as with "%pip install -r FILE".
// Earlier code may have written them, so they are read when the code is about to run.
func (x *Run) readRequirements(ctx context.Context) (all []string, err error) {
	in, dir := x.Installs.Installer, x.Dir
	if x.context != nil {
		dir = x.context.dir
	}
	var todo, seen []string
	left := maxRequirementText
	for _, name := range x.adding.magic.Files {
		todo = append(todo, under(dir, name))
	}
	for len(todo) > 0 {
		file := todo[0]
		if todo = todo[1:]; slices.Contains(seen, file) {
			continue
		}
		if seen = append(seen, file); len(seen) > maxRequirementFiles {
			return nil, sandbox.Invalidf("code", "more than %d files list requirements", maxRequirementFiles)
		}
		text, err := x.readRequirementFile(ctx, file, left)
		if err != nil {
			return nil, err
		}
		left -= len(text)
		requirements, files, err := in.List(text)
		if err != nil {
			return nil, sandbox.Invalidf("code", "%.200q: %v", file, err)
		}
		for _, name := range files {
			todo = append(todo, under(path.Dir(file), name))
		}
		if all = append(all, requirements...); len(all) > sandbox.MaxRequirements {
			return nil, sandbox.CheckRequirements(len(all))
		}
	}
	return all, nil
}

// readRequirementFile reads a file of at most so many bytes.
func (x *Run) readRequirementFile(ctx context.Context, file string, most int) ([]byte, error) {
	var text bytes.Buffer
	err := x.sandbox.call(ctx, func(c *client.Client) error {
		text.Reset()
		_, err := c.ReadFile(ctx, guest.ReadFile{Path: file, Length: uint64(most) + 1}, &text)
		return err
	})
	switch {
	case errors.Is(err, syscall.ENOENT):
		return nil, sandbox.Invalidf("code", "the requirements %.200q do not exist", file)
	case err != nil:
		return nil, fmt.Errorf("read the requirements: %w", err)
	case text.Len() > most:
		return nil, &sandbox.Error{Kind: sandbox.TooLarge, Op: "code",
			Msg: "the files of requirements are over 1MiB together"}
	}
	return text.Bytes(), nil
}

// under returns a path of a file that code names in a folder.
func under(dir, name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(dir, name)
}

// notUpgraded returns the requirements and packages that the code does not upgrade.
func (x *Run) notUpgraded(had sandbox.Added) sandbox.Added {
	in, names := x.Installs.Installer, map[string]bool{}
	for _, r := range x.adding.magic.Upgrades {
		names[in.NameOf(r)] = true
	}
	upgraded := func(name string) bool { return names[in.NameOf(name)] }
	had.Requirements = slices.DeleteFunc(slices.Clone(had.Requirements), upgraded)
	had.Installed = slices.DeleteFunc(slices.Clone(had.Installed),
		func(p sandbox.Package) bool { return upgraded(p.Name) })
	return had
}
