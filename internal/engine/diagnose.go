package engine

import (
	"bytes"
	"context"
	"path"

	"github.com/fumehood-dev/fumehood/internal/diagnose"
	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/client"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// diagnose explains the end of a run. The program's output is hostile and the code that reads it large, so it
// contains a panic.
func (x *Run) diagnose(o *outcome, r *sandbox.Result) (hints []sandbox.Hint) {
	defer func() {
		if p := recover(); p != nil {
			hints = x.found
			_ = x.sandbox.engine.panicked("diagnose an end", p)
		}
	}()
	config, rules := &x.sandbox.engine.config, x.sandbox.engine.rulesOf(x.sandbox.owner)
	f := diagnose.Facts{
		Offer:  diagnose.Offer{Languages: config.Languages, Max: rules.Max, Packages: config.Packages != nil},
		Result: r, Request: &x.Request, Command: x.Argv[0], Language: x.Language, Found: x.found,
		Forbidden: x.forbidden(), GuestGone: o.cause == causeLost, NotStarted: o.notStarted,
		Tasks: int64(o.exited.Tasks), Left: int(o.exited.Left),
		Beyond:  [2]int64{x.output.beyond(&r.Stdout, x.output.stdout), x.output.beyond(&r.Stderr, x.output.stderr)},
		Network: x.network(), Missing: x.absent.missing, Optional: x.absent.optional,
		LineEnds: x.hasLineEnds, Used: x.used,
	}
	if o.ended {
		f.GuestEnd = &o.end
	}
	if !x.sandbox.oneShot {
		f.Living, f.Signaled = true, x.wasSignaled()
		f.Packages = f.Packages && x.sandbox.takesPackages()
	}
	return diagnose.Hints(&f)
}

// longestFirstLine is how much of a script hasLineEnds reads, in bytes.
const longestFirstLine = 4 << 10

// hasLineEnds reports whether the first line of a file in the sandbox ends as on Windows. A name without a folder is
// one in the working directory.
func (x *Run) hasLineEnds(script string) bool {
	if !path.IsAbs(script) {
		script = path.Join(x.Dir, script)
	}
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	var head bytes.Buffer
	err := x.sandbox.call(ctx, func(c *client.Client) error {
		head.Reset()
		_, err := c.ReadFile(ctx, guest.ReadFile{Path: script, Length: longestFirstLine}, &head)
		return err
	})
	line, _, ended := bytes.Cut(head.Bytes(), []byte("\n"))
	return err == nil && ended && bytes.HasSuffix(line, []byte("\r"))
}

// blockSize is the least size of a file in tmpfs, the file system of the writable places.
const blockSize = 4 << 10

// The most that used looks at, in all places: what it finds tells the two limits apart, and costs a failed run some 50
// ms at the most.
const (
	maxUsed      = 20_000
	maxUsedPaths = 2 << 20 // bytes
)

// used counts what lies in the writable places at the end, as far as it looks.
func (x *Run) used() (files, bytes int64) {
	ctx, cancel := context.WithTimeout(context.Background(), usageTimeout)
	defer cancel()
	paths := 0
	for _, place := range diagnose.WritablePlaces {
		_, _ = x.sandbox.listDir(ctx, place, maxUsed, func(f guest.FileInfo) error {
			if paths += len(f.Path); files >= maxUsed || paths > maxUsedPaths {
				return errEnough
			}
			files++
			if f.Type == guest.FileRegular {
				bytes += int64(min(f.Size, 1<<40)+blockSize-1) / blockSize * blockSize
			}
			return nil
		})
	}
	return files, bytes
}
