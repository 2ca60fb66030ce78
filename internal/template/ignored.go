package template

import (
	"bytes"
	"errors"
	"io"
	"io/fs"
	"os"
	"path"
	"strings"

	"github.com/moby/patternmatcher"
	"github.com/moby/patternmatcher/ignorefile"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of a .dockerignore. Patterns with wildcards become regular expressions, which take some kilobytes each.
const (
	maxIgnored  = 64 << 10 // bytes
	maxPatterns = 1000
)

// The work of comparing a name with a .dockerignore, as in Builder.MaxWork. Each pattern is compared with the name and
// with the name of each folder above it.
const (
	matchWork = 5 // for a pattern and a name
	// For a byte of a name, in hundredths: regular expressions follow all ways at once.
	scanWork = 40 // for a pattern with wildcards
	starWork = 1  // for each * in it
)

// ignored is a .dockerignore.
type ignored struct {
	*patternmatcher.PatternMatcher
	scans int64 // hundredths of work for a byte of a name
}

// readIgnored reads the .dockerignore of a folder; nil if it has none.
func readIgnored(dir string) (*ignored, error) {
	f, err := os.Open(path.Join(dir, ".dockerignore"))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	defer f.Close()
	text, err := io.ReadAll(io.LimitReader(f, maxIgnored+1))
	if err != nil { // the error names the folder of the host
		return nil, sandbox.Invalidf(".dockerignore", "it cannot be read; it must be a file")
	}
	patterns, err := ignorefile.ReadAll(bytes.NewReader(text))
	if len(text) > maxIgnored || len(patterns) > maxPatterns {
		return nil, &sandbox.Error{Kind: sandbox.TooLarge, Op: ".dockerignore",
			Msg: "it is over the limit of 1000 patterns in 64KiB"}
	}
	if err != nil {
		return nil, badIgnored(err)
	}
	m, err := patternmatcher.New(patterns)
	if err != nil {
		return nil, badIgnored(err)
	}
	i := &ignored{PatternMatcher: m}
	for _, p := range m.Patterns() {
		if text := p.String(); strings.ContainsAny(text, `*?[\`) {
			i.scans += scanWork + starWork*int64(strings.Count(text, "*"))
		}
	}
	return i, nil
}

func badIgnored(err error) error { return sandbox.Invalidf(".dockerignore", "%v", err) }

// work returns the work of comparing a name.
func (i *ignored) work(name string) int64 {
	names := int64(strings.Count(name, "/") + 1) // its own, and those of the folders above it
	size := int64(len(name)) * (names + 1) / 2   // of all of them
	return matchWork*names*int64(len(i.Patterns())) + size*i.scans/100
}
