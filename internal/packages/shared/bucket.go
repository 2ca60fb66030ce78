package shared

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"net/url"

	"gocloud.dev/blob"
	_ "gocloud.dev/blob/fileblob" // the only linked driver; RATIONALE.md lists the costs of others
	"gocloud.dev/gcerrors"
)

// bucket implements packages.Archives.
type bucket struct{ address string }

// linked reports whether there is a driver for buckets of a scheme.
func linked(scheme string) bool { return blob.DefaultURLMux().ValidBucketScheme(scheme) }

// withDefaults adds the options that archives in a folder need: the folder is created, has no attribute files, and a
// file is renamed within its own file system.
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

// reader also closes its bucket.
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
	options := &blob.WriterOptions{ContentType: "application/gzip"}
	err = opened.Upload(ctx, nameOf(digest), whole{content, cancel}, options)
	return errors.Join(b.plain(err), opened.Close())
}

// whole cancels the upload of content that ends with an error. Otherwise the driver would keep the content so far.
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

// plain adds the corresponding error of package fs, if any.
func (b bucket) plain(err error) error {
	if gcerrors.Code(err) == gcerrors.NotFound {
		return errors.Join(fs.ErrNotExist, err)
	}
	return err
}
