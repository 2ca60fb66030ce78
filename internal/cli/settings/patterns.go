package settings

import (
	"path"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Patterns returns a function that reports whether the name of an image matches one of the patterns, as path.Match
// defines them. A registry ignores a tag beside a digest, so a pattern with a tag and no digest matches no digest.
func Patterns(op string, patterns []string) (func(name string) bool, error) {
	for _, pattern := range patterns {
		if _, err := path.Match(pattern, ""); err != nil {
			return nil, sandbox.Invalidf(op, "%q is not a pattern", pattern)
		}
	}
	return func(name string) bool {
		return slices.ContainsFunc(patterns, func(pattern string) bool {
			if strings.Contains(name, "@") && bindsTag(pattern) {
				return false
			}
			matched, _ := path.Match(pattern, name)
			return matched
		})
	}, nil
}

// bindsTag reports whether a pattern has a tag, other than "*", and no digest.
func bindsTag(pattern string) bool {
	_, tag, has := strings.Cut(path.Base(pattern), ":")
	return has && tag != "*" && !strings.Contains(pattern, "@")
}
