package shared

import (
	"context"
	"crypto/rand"
	"errors"
	"io"
	"os"
	"path/filepath"
)

// folder implements packages.Archives: one file per archive, which several machines may share.
type folder struct{ path string }

func (f folder) file(digest string) string { return filepath.Join(f.path, digest+".tar.gz") }

func (f folder) Open(_ context.Context, digest string) (io.ReadCloser, error) {
	return os.Open(f.file(digest))
}

// Put writes a temporary file and renames it, so that no reader sees a part. Content that ends with an error is not
// kept.
func (f folder) Put(ctx context.Context, digest string, content io.Reader) error {
	if err := os.MkdirAll(f.path, 0o777); err != nil {
		return err
	}
	temporary := filepath.Join(f.path, digest+"."+rand.Text()+".new")
	w, err := os.OpenFile(temporary, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o666) // the umask decides who may read it
	if err != nil {
		return err
	}
	_, err = io.Copy(w, reader{ctx, content})
	if err = errors.Join(err, w.Close()); err == nil {
		err = os.Rename(temporary, f.file(digest))
	}
	if err != nil {
		return errors.Join(err, os.Remove(temporary))
	}
	return nil
}

// reader ends with its context.
type reader struct {
	ctx     context.Context
	content io.Reader
}

func (r reader) Read(p []byte) (int, error) {
	if err := r.ctx.Err(); err != nil {
		return 0, err
	}
	return r.content.Read(p)
}
