package shared

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // the driver that is linked; RATIONALE.md has the costs of others
	"gocloud.dev/gcerrors"
)

// bucket implements packages.Archives.
type bucket struct{ address string }

// linked reports whether there is a driver for buckets of a scheme.
func linked(scheme string) bool { return blob.DefaultURLMux().ValidBucketScheme(scheme) }

// withDefaults is the address of a bucket, with what our archives need of a folder: it is made, has no files with attributes, and a file gets its name
// by a rename in its own file system.
func withDefaults(u *url.URL) string {
	if u.Scheme == "file" {
		q := u.Query()
		q.Set("create_dir", "true")
		q.Set("no_tmp_dir", "true")
		q.Set("metadata", "skip")
		u.RawQuery = q.Encode()
	}
	return u.String()
}

func nameOf(digest string) string { return digest + ".tar.gz" }

func (b bucket) Open(ctx context.Context, digest string) (io.ReadCloser, error) {
	opened, err := blob.OpenBucket(ctx, b.address)
	if err != nil {
		return nil, b.plain(err)
	}
	r, err := opened.NewReader(ctx, nameOf(digest), nil)
	if err != nil {
		return nil, errors.Join(b.plain(err), opened.Close())
	}
	return reader{r, opened}, nil
}

// reader closes its bucket, too.
type reader struct {
	*blob.Reader
	bucket *blob.Bucket
}

func (r reader) Close() error { return errors.Join(r.Reader.Close(), r.bucket.Close()) }

func (b bucket) Put(ctx context.Context, digest string, content io.Reader) error {
	opened, err := blob.OpenBucket(ctx, b.address)
	if err != nil {
		return b.plain(err)
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	err = opened.Upload(ctx, nameOf(digest), whole{content, cancel}, &blob.WriterOptions{ContentType: "application/gzip"})
	return errors.Join(b.plain(err), opened.Close())
}

// whole abandons an upload whose content ends with an error: only its context does, otherwise what came so far is kept.
type whole struct {
	io.Reader
	abandon context.CancelFunc
}

func (w whole) Read(p []byte) (int, error) {
	n, err := w.Reader.Read(p)
	if err != nil && err != io.EOF {
		w.abandon()
	}
	return n, err
}

// plain makes an error one of package fs where that has one.
func (b bucket) plain(err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return errors.Join(fs.ErrNotExist, err)
	}
	return err
}
