//go:build race

package check

// The race detector has pools lose what they hold, which regular expressions then allocate anew.
const raced = true
