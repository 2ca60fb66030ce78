//go:build !embed

package libexec

import "embed"

// embedded is empty in a program that was built without the tag embed.
var embedded embed.FS
