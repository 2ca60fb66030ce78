package client

import (
	"archive/tar"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The guest knows nothing of tar: archives are written and read here, and only entries travel.

// MaxOmitted bounds how many left-out entries PackTar names.
const MaxOmitted = 1000

// PackTar writes trees to w as a tar archive: folders, regular files and symbolic links, without owners and set-id bits. It
// returns the entries that are left out or changed, with the reason in Err or Omitted. Beyond MaxOmitted, a last entry "."
// gives their number.
func (c *Client) PackTar(ctx context.Context, req guest.Pack, w io.Writer) (omitted []guest.FileInfo, err error) {
	out := tar.NewWriter(w)
	more := 0
	err = c.Pack(ctx, req, func(info guest.FileInfo, content io.Reader) error {
		if info.Err != "" || info.Omitted != "" {
			if len(omitted) < MaxOmitted {
				omitted = append(omitted, info)
			} else {
				more++
			}
			return nil
		}
		if err := out.WriteHeader(tarHeader(&info)); err != nil {
			return err
		}
		_, err := io.Copy(out, content)
		return err
	})
	if more > 0 {
		omitted = append(omitted, guest.FileInfo{Path: ".", Omitted: fmt.Sprintf("%d more were left out", more)})
	}
	if err != nil {
		return omitted, err
	}
	return omitted, out.Close()
}

func tarHeader(info *guest.FileInfo) *tar.Header {
	h := &tar.Header{Name: info.Path, Mode: int64(info.Mode & 0o777), ModTime: time.Unix(0, info.MTime)}
	switch info.Type {
	case guest.FileDir:
		h.Typeflag = tar.TypeDir
		h.Name += "/"
	case guest.FileSymlink:
		h.Typeflag, h.Linkname = tar.TypeSymlink, info.Target
	default:
		h.Typeflag, h.Size = tar.TypeReg, int64(info.Size)
	}
	return h
}

// MaxTarEntries bounds an archive's entries unless the request does.
const MaxTarEntries = 1 << 20

// UnpackTar makes a tar archive's content below Base: folders, regular files and symbolic links, which no later entry goes
// through. Owners, set-id bits, extended attributes and access lists are dropped; of entries with one name the last wins.
// Absolute names, "..", hard links, devices, pipes and sparse files are refused. The archive is hostile, so it is read as a
// stream, within the request's limits; whatever was made before a refused entry stays.
func (c *Client) UnpackTar(ctx context.Context, req guest.Unpack, r io.Reader) (guest.Unpacked, error) {
	in := tarEntries{in: tar.NewReader(r), bytes: orMost(req.MaxBytes), files: req.MaxFiles}
	if in.files == 0 {
		in.files = MaxTarEntries
	}
	return c.Unpack(ctx, req, in.next)
}

// tarEntries reads an archive's entries and refuses forbidden ones.
type tarEntries struct {
	in           *tar.Reader
	bytes, files uint64 // that may still come
}

func (t *tarEntries) next() (guest.FileInfo, io.Reader, error) {
	for {
		h, err := t.in.Next()
		if err != nil {
			return guest.FileInfo{}, nil, tarError(err)
		}
		if t.files == 0 {
			return guest.FileInfo{}, nil, refuse(sandbox.TooLarge, h.Name, "is over the limit of entries")
		}
		t.files--
		if h.Typeflag == tar.TypeXGlobalHeader {
			continue
		}
		info, err := t.entry(h)
		if err != nil {
			return info, nil, err
		}
		if info.Path == "" {
			continue // the base itself
		}
		return info, tarContent{t.in}, nil
	}
}

func (t *tarEntries) entry(h *tar.Header) (guest.FileInfo, error) {
	info := guest.FileInfo{Mode: uint32(h.Mode & 0o777)}
	var err error
	if info.Path, err = tarName(h.Name); err != nil {
		return info, err
	}
	for key := range h.PAXRecords {
		if strings.HasPrefix(key, "GNU.sparse.") {
			return info, refuse(sandbox.Invalid, h.Name, "is a sparse file")
		}
	}
	if !h.ModTime.IsZero() && h.ModTime.Year() > 1900 && h.ModTime.Year() < 2200 { // what nanoseconds can say
		info.MTime = h.ModTime.UnixNano()
	}
	switch h.Typeflag {
	case tar.TypeDir:
		info.Type = guest.FileDir
		return info, nil
	case tar.TypeReg:
		info.Type, info.Size = guest.FileRegular, uint64(h.Size)
	case tar.TypeSymlink:
		info.Type, info.Target = guest.FileSymlink, h.Linkname
		if h.Linkname == "" || len(h.Linkname) >= guest.MaxPath || strings.IndexByte(h.Linkname, 0) >= 0 {
			return info, refuse(sandbox.Invalid, h.Name, "is a link without a valid target")
		}
	default:
		return info, refuse(sandbox.Invalid, h.Name, "is "+tarKind(h.Typeflag))
	}
	switch {
	case info.Path == "" || strings.HasSuffix(h.Name, "/"):
		return info, refuse(sandbox.Invalid, h.Name, "is the name of a folder, but the entry is none")
	case info.Size > t.bytes:
		return info, refuse(sandbox.TooLarge, h.Name, "is over the limit of bytes in all")
	}
	t.bytes -= info.Size
	return info, nil
}

// tarKind names the types of refused entries.
func tarKind(flag byte) string {
	switch flag {
	case tar.TypeLink:
		return "a hard link"
	case tar.TypeChar, tar.TypeBlock:
		return "a device"
	case tar.TypeFifo:
		return "a pipe"
	case tar.TypeGNUSparse:
		return "a sparse file"
	}
	return fmt.Sprintf("of the unknown type %q", flag)
}

// tarName returns a name's shortest form, "" for the base itself. A name that leaves the base is refused.
func tarName(name string) (string, error) {
	switch {
	case len(name) >= guest.MaxPath:
		return "", refuse(sandbox.TooLarge, name, "is too long")
	case strings.HasPrefix(name, "/"):
		return "", refuse(sandbox.Invalid, name, "is absolute")
	case strings.IndexByte(name, 0) >= 0:
		return "", refuse(sandbox.Invalid, name, "holds a NUL byte")
	}
	elements := strings.Split(name, "/")
	kept := elements[:0]
	for _, e := range elements {
		switch e {
		case "", ".":
		case "..":
			return "", refuse(sandbox.Invalid, name, `holds ".."`)
		default:
			kept = append(kept, e)
		}
	}
	return strings.Join(kept, "/"), nil
}

// maxShownName bounds how much of a name an error repeats.
const maxShownName = 200

func refuse(kind sandbox.Kind, name, why string) error {
	if len(name) > maxShownName {
		name = name[:maxShownName] + "..."
	}
	return &sandbox.Error{Kind: kind, Op: "guest: unpack a tar archive", Msg: fmt.Sprintf("the entry %q %s", name, why),
		Fix: "archives may hold folders, regular files and symbolic links with relative names"}
}

// tarContent separates errors of the archive from those of its reader.
type tarContent struct{ in io.Reader }

func (c tarContent) Read(p []byte) (int, error) {
	n, err := c.in.Read(p)
	return n, tarError(err)
}

// tarError explains an error of the archive. io.EOF and errors of the reader below it stay unchanged.
func tarError(err error) error {
	for _, known := range []error{tar.ErrHeader, tar.ErrFieldTooLong, tar.ErrInsecurePath, io.ErrUnexpectedEOF} {
		if errors.Is(err, known) {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "guest: unpack a tar archive", Msg: "it is not a whole tar archive", Err: err}
		}
	}
	return err
}
