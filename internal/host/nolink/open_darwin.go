package nolink

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

func open(path string, flag int, perm os.FileMode) (*os.File, error) {
	f, err := os.OpenFile(path, flag|unix.O_NOFOLLOW_ANY|unix.O_NONBLOCK, perm)
	if errors.Is(err, unix.ELOOP) {
		if link := refuse(path); link != nil {
			return nil, link
		}
	}
	return f, err
}
