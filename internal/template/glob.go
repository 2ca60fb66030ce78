package template

import (
	"context"
	"path"
	"slices"
	"strings"
)

// The work of a pattern with wildcards, as in Builder.MaxWork.
const (
	openWork = 100 // for each folder on the way to one that it reads, and for each name that it keeps
	readWork = 20  // for each entry there, and 16 bytes of the pattern

	globBatch = 256 // entries of a folder that are read at once
)

// glob is fs.Glob, and pays for each entry that it reads.
func (c *collector) glob(pattern string) ([]string, error) {
	found := []string{"."}
	for part := range strings.SplitSeq(pattern, "/") {
		if _, err := path.Match(part, ""); err != nil {
			return nil, err
		}
		var next []string
		for _, dir := range found {
			names, err := c.globIn(dir, part)
			if err != nil {
				return nil, err
			}
			for _, name := range names {
				next = append(next, path.Join(dir, name))
			}
		}
		found = next
	}
	return found, nil
}

// globIn returns the names in a folder that match one part of a pattern. A file has none.
func (c *collector) globIn(dir, part string) (names []string, err error) {
	if err := c.pay(openWork * int64(strings.Count(dir, "/")+1)); err != nil {
		return nil, err
	}
	if !strings.ContainsAny(part, `*?[\`) {
		if _, err := c.root.Lstat(path.Join(dir, part)); err != nil {
			return nil, nil
		}
		return []string{part}, nil
	}
	if info, err := c.root.Stat(dir); err != nil || !info.IsDir() {
		return nil, nil
	}
	f, err := c.root.Open(dir)
	if err != nil {
		return nil, nil
	}
	defer f.Close()
	for {
		list, err := f.Readdirnames(globBatch)
		if payErr := c.pay(int64(len(list)) * readWork * int64(len(part)/16+1)); payErr != nil {
			return nil, payErr
		}
		for _, name := range list {
			if ok, _ := path.Match(part, name); !ok { // glob has checked the pattern
				continue
			}
			if err := c.pay(openWork + int64(len(dir)+len(name))); err != nil { // it is kept
				return nil, err
			}
			names = append(names, name)
		}
		if err != nil {
			slices.Sort(names)
			return names, nil
		}
	}
}

// pay spends work, unless the build was canceled.
func (c *collector) pay(work int64) error {
	if c.ctx.Err() != nil {
		return context.Cause(c.ctx)
	}
	return c.build.spend(work)
}
