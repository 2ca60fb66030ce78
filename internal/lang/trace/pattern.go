package trace

import (
	"regexp"
	"sync"
)

// Pattern returns a function that compiles the expression when it is first called. Most runs do not fail, and compiling the
// patterns of all languages at start-up costs a millisecond of every one.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
