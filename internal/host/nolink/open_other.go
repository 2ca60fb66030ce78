//go:build !linux && !darwin

package nolink

import "os"

func open(path string, flag int, perm os.FileMode) (*os.File, error) {
	return openLooking(path, flag, perm)
}
