package settings

import (
	"path"
	"slices"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Patterns returns a function that reports whether a name matches one of the patterns, as path.Match defines them.
func Patterns(op string, patterns []string) (func(name string) bool, error) {
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, sandbox.Invalidf(op, "%q is not a pattern", pattern)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			matched, _ := path.Match(pattern, name)
			return matched
		})
	}, nil
}
