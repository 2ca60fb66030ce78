package trace

import (
	"regexp"
	"sync"
)

// Pattern returns a function that compiles the expression on its first call. Most runs do not fail, and compiling all
// patterns at start-up would cost each run a millisecond.
func Pattern(expression string) func() *regexp.Regexp {
	return sync.OnceValue(func() *regexp.Regexp { return regexp.MustCompile(expression) })
}
