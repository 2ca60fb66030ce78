//go:build !embed

package libexec

// embedded is empty in a program that was built without the tag embed.
var embedded map[string]string
