//go:build !linux

package volume

import (
	"context"
	"errors"
	"math"
	"os"
)

const (
	blockSize    = 4096
	diskEnforcer = ""
)

func makeDisk(context.Context, string, *record) error {
	return cannotBound("bounding a volume needs Linux", "run fumehood on Linux", nil)
}

func makeFiles(path string) error { return os.Mkdir(path, 0o755) }

func freeSpace(string) (free, size int64, err error) { return math.MaxInt64, 0, nil }

func allocated(string) (int64, error) { return -1, nil }

func mountDisk(context.Context, string) (*disk, error) { return nil, errors.ErrUnsupported }
func (d *disk) again() (int, error)                    { return -1, errors.ErrUnsupported }
func (d *disk) close()                                 {}
