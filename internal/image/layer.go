package image

import (
	"bufio"
	"bytes"
	"compress/gzip"
	"errors"
	"io"

	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/klauspost/compress/zstd"
)

// maxWindow bounds the window of a layer in Zstandard, in bytes: that of zstd --ultra -22.
const maxWindow = 128 << 20

// uncompressed returns the archive of a layer from a registry. v1.Layer.Uncompressed takes 1 GiB of memory if the layer
// names a window of half of that.
func uncompressed(layer v1.Layer) (io.ReadCloser, error) {
	compressed, err := layer.Compressed()
	if err != nil {
		return nil, err
	}
	buffered := bufio.NewReader(compressed)
	start, err := buffered.Peek(4)
	if errors.Is(err, io.EOF) {
		err = nil // a short layer; the archive reports it
	}
	out := struct {
		io.Reader
		io.Closer
	}{buffered, compressed}
	switch {
	case err != nil:
	case bytes.HasPrefix(start, []byte{0x1f, 0x8b}):
		out.Reader, err = gzip.NewReader(buffered)
	case bytes.Equal(start, []byte{0x28, 0xb5, 0x2f, 0xfd}):
		var d *zstd.Decoder
		d, err = zstd.NewReader(buffered, zstd.WithDecoderMaxWindow(maxWindow), zstd.WithDecoderLowmem(true),
			zstd.WithDecoderConcurrency(1)) // without a goroutine
		out.Reader = d
	}
	if err != nil {
		return nil, errors.Join(err, compressed.Close())
	}
	return out, nil
}
