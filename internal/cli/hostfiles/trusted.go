package hostfiles

import (
	"fmt"
	"io"
	"os"
	"syscall"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const maxTrusted = 1 << 20 // bytes

// ReadTrusted reads a file that can weaken every sandbox, such as the configuration. It refuses one that other users
// may have written. named reports whether the user named it, and so trusts its owner.
func ReadTrusted(path string, named bool) ([]byte, error) {
	f, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0) // do not wait for a pipe
	if err != nil {
		return nil, err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if !info.Mode().IsRegular() || info.Size() > maxTrusted {
		return nil, fmt.Errorf("%s is not a regular file of at most %s", path, sandbox.FormatBytes(maxTrusted))
	}
	if who, fix := otherWriter(info, named); who != "" {
		return nil, &sandbox.Error{Op: path, Msg: who, Fix: fix + path}
	}
	return io.ReadAll(io.LimitReader(f, maxTrusted))
}
