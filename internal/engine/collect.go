package engine

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/internal/plan"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of a listing of the workspace.
const (
	maxListed      = 100_000   // entries; the rest is not examined, and a hint reports it
	maxListedBytes = 16 << 20  // bytes of their paths, likewise: entries of the longest would take 400 MB
	maxSkipped     = 100       // skipped files to name; the rest is counted
	maxHinted      = 5         // files that a hint names
	maxRequest     = 256 << 10 // bytes of paths in one request to the guest, well below a message
)

// stamp detects changes of a file: code can reset sizes and times, but not the change time.
type stamp struct {
	inode, size uint64
	ctime       int64
}

// listing is the regular files of the workspace at one moment.
type listing map[string]stamp

// takeBaseline lists the workspace before the start, if files are to be returned.
func (x *Run) takeBaseline(ctx context.Context) error {
	if len(x.Globs) == 0 {
		return nil
	}
	_, err := x.list(ctx, func() { x.baseline = listing{} }, func(f *guest.FileInfo) bool {
		if f.Type == guest.FileRegular {
			x.baseline[f.Path] = stampOf(f)
		}
		return true
	})
	return err
}

func stampOf(f *guest.FileInfo) stamp { return stamp{inode: f.Inode, size: f.Size, ctime: f.CTime} }

// errEnough ends a listing early.
var errEnough = errors.New("enough")

// list calls each for every entry below the workspace until it returns false, and reset before the first one, and
// again if a broken connection restarts the listing. It reports whether the listing exceeded the limits.
func (x *Run) list(ctx context.Context, reset func(), each func(*guest.FileInfo) bool) (more bool, err error) {
	bytes := 0
	err = x.sandbox.call(ctx, func(c *client.Client) (err error) {
		reset()
		bytes = 0
		more, err = c.ListDir(ctx, guest.ListDir{Path: sandbox.Workspace, Depth: plan.MaxDepth, Limit: maxListed},
			func(f guest.FileInfo) error {
				if bytes += len(f.Path); bytes > maxListedBytes || !each(&f) {
					return errEnough
				}
				return nil
			})
		return err
	})
	if errors.Is(err, errEnough) {
		return bytes > maxListedBytes, nil
	}
	return more, err
}

// collection gathers the files to return of one run.
type collection struct {
	x       *Run
	result  *sandbox.Result
	matcher plan.Matcher
	wanted  []sandbox.File // chosen, without content
	size    map[string]int64
	total   int64
	other   []string // the first new files that match no pattern
	failed  bool     // not all was examined
}

// collect returns the requested new and changed files below the workspace. In a one-shot sandbox it ends all processes
// first, so that nothing changes any more. If it fails, the result says which files are missing; the status stays.
func (x *Run) collect(ctx context.Context, o *outcome, r *sandbox.Result) {
	if len(x.Globs) == 0 || o.cause != causeExit && o.cause != causeOutput {
		return
	}
	started := time.Now()
	defer func() { x.timings.Files = time.Since(started) }()
	ctx, cancel := context.WithTimeout(ctx, collectTimeout)
	defer cancel()
	c := &collection{x: x, result: r}
	var err error
	if x.sandbox.oneShot { // in a living sandbox, other processes continue
		err = x.sandbox.killAll(ctx)
	}
	if err == nil {
		err = c.choose(ctx)
	}
	if err == nil {
		err = c.fetch(ctx)
	}
	if err != nil {
		x.sandbox.engine.log.Warn("could not return files", "sandbox", x.sandbox.id, "run", x.id, "err", err)
		c.reportIncomplete(sandbox.HintNoFiles)
	}
	c.addHints(ctx)
}

// choose lists the workspace and decides on each entry. It never follows or opens links, devices, pipes and sockets.
func (c *collection) choose(ctx context.Context) error {
	more, err := c.x.list(ctx, c.reset, c.consider)
	if more {
		c.reportIncomplete(sandbox.HintUnlisted)
	}
	if c.matcher.Exhausted() {
		c.reportIncomplete(sandbox.HintPatterns)
	}
	return err
}

// reset discards the result of a listing.
func (c *collection) reset() {
	c.matcher, c.wanted, c.size, c.total, c.other = c.x.Globs.Matcher(), nil, map[string]int64{}, 0, nil
	c.result.Skipped, c.result.SkippedMore = nil, 0
}

var leftOutTypes = map[guest.FileType]struct {
	code   sandbox.SkipCode
	reason string
}{
	guest.FileSymlink: {sandbox.SkipSymlink, "it is a symbolic link"},
	guest.FileDevice:  {sandbox.SkipDevice, "it is a device"},
	guest.FilePipe:    {sandbox.SkipPipe, "it is a pipe"},
	guest.FileSocket:  {sandbox.SkipSocket, "it is a socket"},
}

// consider decides on one entry, and reports whether to continue.
func (c *collection) consider(f *guest.FileInfo) bool {
	old, was := c.x.baseline[f.Path]
	same := was && f.Type == guest.FileRegular && old == stampOf(f)
	switch {
	case same:
	case c.matches(f):
		c.take(f)
	case f.Type == guest.FileRegular && len(c.other) < maxHinted:
		c.other = append(c.other, f.Path)
	}
	return !c.matcher.Exhausted()
}

// matches reports whether an entry is requested. It checks the path, which comes from the guest.
func (c *collection) matches(f *guest.FileInfo) bool {
	folder := f.Type == guest.FileDir && f.Err == ""
	return !folder && plan.CheckPath("path", f.Path) == nil && c.matcher.Matches(f.Path)
}

// take chooses or skips an entry. Sizes come from the guest, so they are limited.
func (c *collection) take(f *guest.FileInfo) {
	bounds := &c.x.Request.Return
	switch {
	case f.Err != "":
		c.skip(f.Path, 0, sandbox.SkipUnreadable, "it could not be read")
		return
	case f.Type != guest.FileRegular:
		if t, known := leftOutTypes[f.Type]; known {
			c.skip(f.Path, 0, t.code, t.reason)
		}
		return
	}
	if _, twice := c.size[f.Path]; twice {
		return
	}
	size := int64(min(f.Size, 1<<62))
	switch {
	case size > bounds.MaxFileBytes:
		c.skip(f.Path, size, sandbox.SkipTooLarge,
			"it is larger than "+sandbox.FormatBytes(bounds.MaxFileBytes)+", the limit of one file")
	case len(c.wanted) >= bounds.MaxFiles:
		c.skip(f.Path, size, sandbox.SkipTooMany, fmt.Sprintf("more than %d files were made", bounds.MaxFiles))
	case c.total+size > bounds.MaxBytes:
		c.skip(f.Path, size, sandbox.SkipTotal,
			"the files together are larger than "+sandbox.FormatBytes(bounds.MaxBytes))
	default:
		c.total += size
		c.size[f.Path] = size
		c.wanted = append(c.wanted, sandbox.File{Path: f.Path})
	}
}

func (c *collection) skip(path string, size int64, code sandbox.SkipCode, reason string) {
	if len(c.result.Skipped) >= maxSkipped {
		c.result.SkippedMore++
		return
	}
	c.result.Skipped = append(c.result.Skipped, sandbox.Skipped{Path: path, Size: size, Code: code, Reason: reason})
}

func (c *collection) hint(h sandbox.Hint) { c.x.found = append(c.x.found, h) }

// reportIncomplete records why not all of the workspace was examined.
func (c *collection) reportIncomplete(why sandbox.Note) {
	c.failed = true
	c.hint(why)
}

// fetch reads the chosen files, in as few requests as their paths allow.
func (c *collection) fetch(ctx context.Context) error {
	for rest := c.wanted; len(rest) > 0; {
		var paths []string
		bytes := 0
		for _, f := range rest {
			if bytes += len(f.Path); bytes > maxRequest && len(paths) > 0 {
				break
			}
			paths = append(paths, f.Path)
		}
		rest = rest[len(paths):]
		if err := c.fetchSome(ctx, paths); err != nil {
			return err
		}
	}
	for _, f := range c.wanted { // in a directory of the host, files may vanish meanwhile
		if size, missing := c.size[f.Path]; missing {
			c.skip(f.Path, size, sandbox.SkipUnreadable, "it could not be read")
		}
	}
	return nil
}

// fetchSome reads files, up to the sizes in the listing. On a new connection it continues with the missing ones.
func (c *collection) fetchSome(ctx context.Context, paths []string) error {
	begun, all := false, paths
	return c.x.sandbox.call(ctx, func(guests *client.Client) error {
		if begun {
			c.takeBackLast(all)
			paths = slices.DeleteFunc(slices.Clone(all),
				func(path string) bool { _, missing := c.size[path]; return !missing })
		}
		if begun = true; len(paths) == 0 {
			return nil
		}
		// 0 would mean no limit.
		request := guest.Pack{Base: sandbox.Workspace, Paths: paths, MaxFiles: uint64(len(paths)),
			MaxBytes: uint64(max(c.total, 1))}
		return guests.Pack(ctx, request, c.receive)
	})
}

// takeBackLast takes back the last received file, if it is one of paths: the guest may have been about to report that
// it changed.
func (c *collection) takeBackLast(paths []string) {
	if n := len(c.result.Files); n > 0 && slices.Contains(paths, c.result.Files[n-1].Path) {
		last := c.result.Files[n-1]
		c.result.Files = c.result.Files[:n-1]
		c.size[last.Path] = int64(len(last.Data))
	}
}

// receive takes one file, or why it is missing. A file that changed during the read is announced twice.
func (c *collection) receive(f guest.FileInfo, content io.Reader) error {
	size, asked := c.size[f.Path]
	if !asked {
		if n := len(c.result.Files); n > 0 && c.result.Files[n-1].Path == f.Path {
			c.result.Files = c.result.Files[:n-1]
			c.skip(f.Path, int64(f.Size), sandbox.SkipChanged, "it changed while it was read")
		}
		return nil
	}
	switch {
	case !client.HasContent(&f):
		delete(c.size, f.Path)
		c.skip(f.Path, size, sandbox.SkipUnreadable, "it could not be read")
		return nil
	case f.Size > uint64(size):
		delete(c.size, f.Path)
		c.skip(f.Path, size, sandbox.SkipChanged, "it grew while it was read")
		return nil
	}
	data := make([]byte, f.Size)
	if _, err := io.ReadFull(content, data); err != nil {
		return err
	}
	delete(c.size, f.Path)
	c.result.Files = append(c.result.Files, sandbox.File{Path: f.Path, Mode: f.Mode & 0o777, Data: data})
	return nil
}
