package httpapi

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"encoding/binary"
	"errors"
	"hash/maphash"
	"io"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/internal/engine"
	"github.com/fumehood-dev/fumehood/internal/httpd"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The kinds of archives.
const (
	archiveTar = "tar"
	archiveZip = "zip"
)

// Limits of a zip archive, whose directory is at its end and in memory.
const (
	maxZipFiles = 10_000
	zipEntry    = 512 // bytes that an entry takes besides its name
	linkBytes   = 32  // of a link, as long as its archive is sent
	maxZipNames = 4 << 20
	maxLink     = 4096 // PATH_MAX
)

// entrySteps is the work of packing or unpacking an entry, besides its bytes.
const entrySteps = 3

// archiveOf returns the kind of archive that a request wants or sends, or "".
func archiveOf(r *http.Request) (string, error) {
	switch kind := (&query{r: r}).text("archive"); kind {
	case "", archiveTar, archiveZip:
		return kind, nil
	default:
		return "", sandbox.Invalidf("archive", "%.40q is not tar or zip", kind)
	}
}

// archiveWriter writes entries of an archive.
type archiveWriter interface {
	add(f sandbox.FileInfo, content io.Reader) error
	Close() error
}

// sendFolder streams a folder as an archive.
func (a *apiV1) sendFolder(w *httpd.Response, r *http.Request, s *engine.Sandbox, folder, kind string) error {
	held := int64(engine.FileBuffer + maxZipFiles*linkBytes)
	if kind == archiveZip {
		held += maxZipNames + maxZipFiles*zipEntry
	}
	if err := a.Reserve(r.Context(), w, held); err != nil {
		return err
	}
	body := &archiveBody{out: w, begin: func() {
		h := w.Header()
		h.Set("Content-Type", map[string]string{archiveTar: api.MediaTar, archiveZip: api.MediaZip}[kind])
		h.Set("Content-Disposition", mime.FormatMediaType("attachment", map[string]string{
			"filename": path.Base(folder) + "." + kind}))
		w.WriteHeader(http.StatusOK)
	}}
	if r.Method == http.MethodHead {
		body.begin()
		return nil
	}
	var to archiveWriter = &tarWriter{tar.NewWriter(body)}
	if kind == archiveZip {
		to = &zipWriter{Writer: zip.NewWriter(body)}
	}
	links, seed := map[uint64]bool{}, maphash.MakeSeed() // hashes of their paths, which may have 4 KiB each
	err := s.PackFolder(r.Context(), folder, func(f sandbox.FileInfo, content io.Reader) error {
		w.Steps(entrySteps)
		if !filepath.IsLocal(f.Path) || links[maphash.String(seed, path.Dir(f.Path))] || len(links) > maxZipFiles {
			return sandbox.Invalidf("path", "the sandbox has a file that no archive can hold")
		}
		if f.Type == sandbox.TypeSymlink {
			if !within(f.Path, f.Target) {
				return nil
			}
			links[maphash.String(seed, f.Path)] = true
		}
		return to.add(f, content)
	})
	if err == nil {
		err = to.Close()
	}
	if err == nil {
		return body.flush()
	}
	if body.failed {
		a.LostClient()
	}
	if body.begun {
		panic(http.ErrAbortHandler) // an incomplete archive must not look complete
	}
	return err
}

// within reports whether a link leads to a path below the folder, whatever its parts are: only its first parts are
// "..".
func within(link, target string) bool {
	rest := target
	for strings.HasPrefix(rest, "../") {
		rest = rest[len("../"):]
	}
	up := strings.Count(target, "../") - strings.Count(rest, "../")
	return rest != "" && filepath.IsLocal(rest) && path.Clean(rest) == rest && rest != "." &&
		up <= strings.Count(link, "/")
}

// archiveBody sends nothing before the first 64 KiB, so that an early failure has its own status.
type archiveBody struct {
	out    *httpd.Response
	begin  func()
	buf    bytes.Buffer
	begun  bool
	failed bool
}

func (b *archiveBody) Write(p []byte) (int, error) {
	b.buf.Write(p)
	if b.buf.Len() < 64<<10 {
		return len(p), nil
	}
	return len(p), b.flush()
}

func (b *archiveBody) flush() error {
	if !b.begun {
		b.begun = true
		b.begin()
	}
	_, err := b.out.Write(b.buf.Bytes())
	b.failed = b.failed || err != nil
	b.buf.Reset()
	return err
}

type tarWriter struct{ *tar.Writer }

func (t *tarWriter) add(f sandbox.FileInfo, content io.Reader) error {
	h := &tar.Header{Name: f.Path, Mode: int64(f.Mode & 0o777), Size: f.Size, ModTime: f.Modified.Truncate(time.Second),
		Typeflag: tar.TypeReg}
	switch f.Type {
	case sandbox.TypeFolder:
		h.Typeflag, h.Name, h.Size = tar.TypeDir, f.Path+"/", 0
	case sandbox.TypeSymlink:
		h.Typeflag, h.Linkname, h.Size = tar.TypeSymlink, f.Target, 0
	}
	if err := t.WriteHeader(h); err != nil {
		return err
	}
	_, err := io.Copy(t, content)
	return err
}

type zipWriter struct {
	*zip.Writer
	files, names int
}

func (z *zipWriter) add(f sandbox.FileInfo, content io.Reader) error {
	z.files++
	if z.names += len(f.Path); z.files > maxZipFiles || z.names > maxZipNames {
		return &sandbox.Error{Kind: sandbox.TooLarge, Op: "archive", Msg: "the folder has too many files for a zip",
			Fix: "use archive=tar"}
	}
	h := &zip.FileHeader{Name: f.Path, Method: zip.Store, Modified: f.Modified}
	h.SetMode(fs.FileMode(f.Mode & 0o777))
	switch f.Type {
	case sandbox.TypeFolder:
		h.Name += "/"
		h.SetMode(fs.FileMode(f.Mode&0o777) | fs.ModeDir)
	case sandbox.TypeSymlink:
		h.SetMode(fs.ModePerm | fs.ModeSymlink)
		content = strings.NewReader(f.Target)
	}
	out, err := z.CreateHeader(h)
	if err == nil {
		_, err = io.Copy(out, content)
	}
	return err
}

// tarHeads is the most memory of the heads before an entry of a tar: package archive/tar reads up to 1 MiB of each
// kind, and the records of a pax head become a map.
const tarHeads = 16 << 20

// nextEntry returns an entry of an archive and the content of a file, or io.EOF.
type nextEntry = func() (sandbox.FileInfo, io.Reader, error)

// receiveFolder unpacks an archive into a folder. After an error, earlier entries stay.
func (a *apiV1) receiveFolder(w *httpd.Response, r *http.Request, s *engine.Sandbox, folder, kind string) error {
	var next nextEntry
	if kind == archiveTar {
		body, err := a.StreamBody(w, r, a.MaxFile())
		if err != nil {
			return err
		}
		if err := a.Reserve(r.Context(), w, tarHeads); err != nil {
			return err
		}
		next = fromTar(body)
	} else {
		body, err := a.ReadBytes(w, r)
		defer body.Release()
		if err == nil {
			next, err = fromZip(w, body)
		}
		if err != nil {
			return err
		}
	}
	files, size, err := s.UnpackFolder(r.Context(), folder, bounded(w, next, a.MaxFile()))
	if err != nil {
		return err
	}
	return a.WriteJSON(w, api.Unpacked{Files: files, Bytes: size})
}

// bounded bounds the bytes of all files of an archive, and counts them as work for the client. A small zip, or a tar
// with a sparse file, could have any number, and the files of one name replace each other, so that no disk would be
// full.
func bounded(w *httpd.Response, next nextEntry, most int64) nextEntry {
	total := int64(0)
	return func() (sandbox.FileInfo, io.Reader, error) {
		f, content, err := next()
		w.Steps(entrySteps)
		if err == nil && f.Size > most-total {
			return f, nil, &sandbox.Error{Kind: sandbox.TooLarge, Op: "body",
				Msg: "the files of the archive have more than " + sandbox.FormatBytes(most),
				Fix: "send several archives"}
		}
		total += f.Size
		if content != nil {
			content = w.Working(content)
		}
		return f, content, err
	}
}

func notArchive(kind string, err error) error {
	var known *sandbox.Error
	if errors.As(err, &known) { // of the body
		return err
	}
	return sandbox.Invalidf("body", "%s", notWhole(kind))
}

func notWhole(kind string) string { return "is not a whole " + kind + " archive" }

// entryName returns the name of an entry, relative to the folder; "." is the folder itself.
func entryName(name string) (string, error) {
	clean := path.Clean(strings.TrimPrefix(name, "./"))
	if !filepath.IsLocal(clean) {
		return "", sandbox.Invalidf("body", "the archive has an entry %.80q outside of its folder", name)
	}
	return clean, nil
}

// fromTar returns the entries of a tar archive (POSIX.1-2001, section pax, and its relatives), in order.
func fromTar(body io.Reader) func() (sandbox.FileInfo, io.Reader, error) {
	body = bufio.NewReaderSize(body, 64<<10) // package archive/tar reads 512 bytes at once, and each read costs time
	in := tar.NewReader(body)
	return func() (f sandbox.FileInfo, content io.Reader, err error) {
		for {
			h, err := in.Next()
			if errors.Is(err, io.EOF) {
				_, err = io.Copy(io.Discard, body) // what follows the end, as tar pads it
				if err == nil {
					err = io.EOF
				}
				return f, nil, err
			}
			if err != nil {
				return f, nil, notArchive(archiveTar, err)
			}
			f = sandbox.FileInfo{Mode: uint32(h.Mode) & 0o777, Size: h.Size, Modified: h.ModTime, Target: h.Linkname}
			switch h.Typeflag {
			case tar.TypeReg, tar.TypeGNUSparse:
				f.Type = sandbox.TypeFile
			case tar.TypeDir:
				f.Type, f.Size = sandbox.TypeFolder, 0
			case tar.TypeSymlink:
				f.Type, f.Size = sandbox.TypeSymlink, 0
			case tar.TypeXGlobalHeader:
				continue
			default:
				return f, nil, sandbox.Invalidf("body", "%.80q in the archive is not a file, folder or symbolic link",
					h.Name)
			}
			if f.Path, err = entryName(h.Name); err != nil {
				return f, nil, err
			}
			if f.Path != "." {
				return f, httpd.Decoded{Reader: in, Malformed: notWhole(archiveTar)}, nil
			}
		}
	}
}

// zipSignature begins each entry of a zip's directory (APPNOTE.TXT, section 4.3.12).
const zipSignature = "PK\x01\x02"

// Offsets in an entry of a zip's directory.
const (
	zipLengths = 28 // of three numbers of 16 bits: the bytes of its name, its extra fields and its comment
	zipHead    = 46 // bytes before the name
)

// zipDirectory returns the most entries that a zip's directory can have, and the memory that they take: package
// archive/zip copies their texts once or twice.
func zipDirectory(zip []byte) (entries int, size int64) {
	for {
		at := bytes.Index(zip, []byte(zipSignature))
		if at < 0 {
			return entries, size
		}
		if zip = zip[at:]; len(zip) < zipHead {
			return entries, size
		}
		texts := int64(0)
		for i := range 3 {
			texts += int64(binary.LittleEndian.Uint16(zip[zipLengths+2*i:]))
		}
		entries, size = entries+1, size+zipEntry+2*min(texts, int64(len(zip)))
		zip = zip[len(zipSignature):]
	}
}

// fromZip returns the entries of a zip archive, in the order of its directory.
func fromZip(w *httpd.Response, body *httpd.Body) (func() (sandbox.FileInfo, io.Reader, error), error) {
	entries, size := zipDirectory(body.Data)
	if entries > engine.MaxArchived {
		return nil, &sandbox.Error{Kind: sandbox.TooLarge, Op: "body", Msg: "the zip has too many files",
			Fix: "send a tar"}
	}
	if err := body.Hold(size); err != nil {
		return nil, err
	}
	u := w.Unpacking()
	in, err := zip.NewReader(u.PackedAt(bytes.NewReader(body.Data)), int64(len(body.Data)))
	if err != nil {
		return nil, notArchive(archiveZip, err)
	}
	files := slices.Clone(in.File)
	in.File = nil // its capacity is a number of the archive
	return func() (f sandbox.FileInfo, content io.Reader, err error) {
		for len(files) > 0 {
			entry := files[0]
			files = files[1:]
			f, content, err = fromEntry(u, entry)
			if err != nil || f.Path != "." {
				return f, content, err
			}
		}
		return f, nil, io.EOF
	}, nil
}

// fromEntry returns an entry of a zip and its content.
func fromEntry(u *httpd.Unpacking, entry *zip.File) (f sandbox.FileInfo, content io.Reader, err error) {
	mode := entry.Mode()
	f = sandbox.FileInfo{Mode: uint32(mode.Perm()), Modified: entry.Modified, Type: sandbox.TypeFile,
		Size: int64(min(entry.UncompressedSize64, 1<<62))}
	if f.Path, err = entryName(entry.Name); err != nil {
		return f, nil, err
	}
	if mode.IsDir() {
		f.Type, f.Size = sandbox.TypeFolder, 0
		return f, nil, nil
	}
	opened, err := entry.Open()
	if err != nil {
		return f, nil, notArchive(archiveZip, err)
	}
	content = httpd.Decoded{Reader: &toItsEnd{u.Unpacked(opened), f.Size}, Malformed: notWhole(archiveZip)}
	switch {
	case mode&fs.ModeSymlink != 0:
		target, err := io.ReadAll(io.LimitReader(content, maxLink))
		f.Type, f.Size, f.Target = sandbox.TypeSymlink, 0, string(target)
		return f, nil, err
	case !mode.IsRegular():
		return f, nil, sandbox.Invalidf("body", "%.80q in the archive is not a file, folder or symbolic link",
			entry.Name)
	}
	return f, content, nil
}

// toItsEnd reads to the end of a file in a zip, where package archive/zip compares its checksum.
type toItsEnd struct {
	io.Reader
	left int64
}

func (r *toItsEnd) Read(p []byte) (int, error) {
	n, err := r.Reader.Read(p)
	if r.left -= int64(n); r.left <= 0 && err == nil {
		_, err = r.Reader.Read(make([]byte, 1)) // more than all is an error, too
	}
	return n, err
}
