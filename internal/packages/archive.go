package packages

import (
	"archive/tar"
	"compress/gzip"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// An archive of a layer is a compressed tar of regular files, in the order of their paths. It contains nothing else,
// and is accepted only if its files have the digest of the layer.

// maxEntry exceeds the size that tar adds to a file: its header, the header of a long name, and padding.
const maxEntry = 4096 // bytes

// maxArchive returns the maximum size of an archive, compressed or not, of a layer of a size.
func maxArchive(layer int64) int64 { return layer + maxLayerFiles*maxEntry }

// pack writes the archive of a layer.
func pack(to io.Writer, tree string) error {
	root, err := os.OpenRoot(tree)
	if err != nil {
		return err
	}
	defer root.Close()
	packed, err := gzip.NewWriterLevel(to, gzip.BestSpeed)
	if err != nil {
		return err
	}
	files := tar.NewWriter(packed)
	err = fs.WalkDir(root.FS(), ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		return packFile(files, root, path)
	})
	if err != nil {
		return err // an archive without an end is invalid
	}
	return errors.Join(files.Close(), packed.Close())
}

func packFile(to *tar.Writer, root *os.Root, path string) error {
	f, err := root.Open(path)
	if err != nil {
		return err
	}
	defer f.Close()
	info, err := f.Stat()
	if err != nil {
		return err
	}
	err = to.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: path, Mode: int64(info.Mode().Perm()),
		Size: info.Size(), Format: tar.FormatPAX})
	if err == nil {
		_, err = io.Copy(to, f)
	}
	return err
}

// unpack adds the files of a hostile archive to a draft, at most that many bytes.
func unpack(from io.Reader, d *draft, most int64) error {
	packed, err := gzip.NewReader(io.LimitReader(from, maxArchive(most)))
	if err != nil {
		return err
	}
	packed.Multistream(false)
	files := tar.NewReader(io.LimitReader(packed, maxArchive(most)))
	for left := most; ; {
		h, err := files.Next()
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
		if h.Typeflag != tar.TypeReg {
			return errRefused("%.80q is not a regular file", h.Name)
		}
		if left -= h.Size; left < 0 { // a size is never negative
			return errRefused("its files are larger than %s", sandbox.FormatBytes(most))
		}
		f := sandbox.FileInfo{Path: h.Name, Type: sandbox.TypeFile, Mode: uint32(h.Mode & 0o777), Size: h.Size}
		if err := d.add(f, files); err != nil {
			return err
		}
	}
}

// unpackLayer publishes the layer of an answer from its archive, or leaves nothing behind.
func (j *job) unpackLayer(from io.Reader, a answer) error {
	d, err := j.cache.newDraft()
	if err != nil {
		return err
	}
	in := j.need.Language.Installer
	err = unpack(from, d, min(installLimits.DiskBytes, j.packager.config.MaxBytes))
	if err == nil && d.digest(in.At) != a.Digest {
		err = errRefused("its files have the digest %s", d.digest(in.At))
	}
	if err != nil {
		return errors.Join(err, d.discard())
	}
	_, err = d.publish(Layer{Language: j.need.Language.Name, At: in.At, Requested: a.Requested, Packages: a.Packages})
	return err
}

// Reasons why a transfer ends.
var (
	errStalled = errors.New("no data moved for " + archiveStall.String())
	errLate    = errors.New("not completed within " + archiveTimeout.String())
	errEnded   = errors.New("no longer needed")
)

// transfer moves an archive. It ends with its context, at a time limit, and when no data moves. The driver of the store
// has a goroutine and the other end of a pipe, so that a file system that hangs blocks only the driver.
type transfer struct {
	in      *io.PipeReader
	out     *io.PipeWriter
	cancel  context.CancelCauseFunc
	stall   *time.Timer
	driver  chan struct{} // closed when the driver has ended
	ended   error         // of the driver; valid once driver is closed
	failure error         // of reading, except io.EOF
}

// begin starts a transfer whose driver calls drive. finish closes the driver's end of the pipe; only its first call has
// an effect.
func (x *transfer) begin(ctx context.Context, finish func(error) error, drive func(context.Context) error) {
	ctx, cancel := context.WithCancelCause(ctx)
	late := time.AfterFunc(archiveTimeout, func() { cancel(errLate) })
	x.cancel = func(err error) { late.Stop(); cancel(err) }
	x.stall = time.AfterFunc(archiveStall, func() { cancel(errStalled) })
	context.AfterFunc(ctx, func() { _ = finish(context.Cause(ctx)) }) // never fails
	go func() {                                                       // ends with the context, unless the driver hangs
		x.ended = drive(ctx)
		_ = finish(x.ended)
		close(x.driver)
	}()
}

func newTransfer() *transfer {
	x := &transfer{driver: make(chan struct{})}
	x.in, x.out = io.Pipe()
	return x
}

// end ends a transfer and waits for its driver.
func (x *transfer) end() {
	x.stall.Stop()
	x.cancel(errEnded)
	select {
	case <-x.driver:
	case <-time.After(driverGrace): // it hangs
	}
}

// receive reads an archive from the second tier.
func (t *tier) receive(ctx context.Context, digest string) *transfer {
	x := newTransfer()
	x.begin(ctx, x.out.CloseWithError, func(ctx context.Context) error {
		from, err := t.Archives.Open(ctx, digest)
		if err != nil {
			return err
		}
		_, err = io.Copy(x.out, from)
		return errors.Join(err, from.Close())
	})
	return x
}

// Read implements io.Reader for an archive that is received.
func (x *transfer) Read(p []byte) (int, error) {
	n, err := x.in.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		x.failure = err
	}
	x.stall.Reset(archiveStall)
	return n, err
}

// Write implements io.Writer for an archive that is sent.
func (x *transfer) Write(p []byte) (int, error) {
	n, err := x.out.Write(p)
	x.stall.Reset(archiveStall)
	return n, err
}

// send writes the archive of a layer to the second tier.
func (t *tier) send(ctx context.Context, digest, tree string) error {
	x := newTransfer()
	x.begin(ctx, x.in.CloseWithError, func(ctx context.Context) error { return t.Archives.Put(ctx, digest, x.in) })
	defer x.end()
	err := pack(x, tree)
	x.out.CloseWithError(err) // on an error, the driver stores nothing
	if err != nil {
		return err
	}
	select {
	case <-x.driver:
		return x.ended
	case <-time.After(archiveStall):
		return errStalled
	}
}
