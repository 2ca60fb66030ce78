//go:build !linux

package libexec

import (
	"io"
	"os"
)

func seal(name string, content io.Reader) (*os.File, error) { return unlinked(name, content) }
