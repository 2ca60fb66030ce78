//go:build !linux

package image

import (
	"context"
	"errors"
	"io"
	"os"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// unpacker unpacks the layers of one image into one tree.
type unpacker struct {
	limits  Limits
	room    int64
	spend   func(entries int, bytes int64) error
	reserve func(int64) (int64, error)
}

func newUnpacker(string, Limits) (*unpacker, error) {
	return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "image", Msg: "unpacking images needs Linux",
		Fix: "use the images of Docker or Podman"}
}

func (u *unpacker) layer(io.Reader) error { return errors.ErrUnsupported }
func (u *unpacker) isFolder(string) bool  { return false }
func (u *unpacker) Close() error          { return nil }

func openInside(string, string, bool) (*os.File, error) { return nil, errors.ErrUnsupported }

func copyTree(context.Context, string, string, func(int64) error) (int64, error) {
	return 0, errors.ErrUnsupported
}
