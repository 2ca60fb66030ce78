package template

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/image"
	"github.com/fumehood-dev/fumehood/internal/walk"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// The work of a COPY, as in Builder.MaxWork.
const (
	hashedBytes = 50  // of content: SHA-256 takes 2 ns for one
	itemWork    = 500 // for a file: 200,000 of them are 10 s
)

// maxNames is the most bytes of the names that one COPY of a bounded build keeps: of files here, there, and of targets
// of links. So 200,000 files may have names of 80 bytes.
const maxNames = 32 << 20

// item is a file, folder or link of a layer.
type item struct {
	name     string // in the image, relative to its root
	source   string // in the folder that is copied; "" has content
	content  string
	link     string // target of a symbolic link
	mode     fs.FileMode
	size     int64
	modified time.Time
	uid, gid uint32
}

type items []item

// write writes the items as a layer, and what their layer depends on, all but times, to sum.
func (list items) write(ctx context.Context, root *os.Root, w io.Writer, sum io.Writer) error {
	out := tar.NewWriter(w)
	for _, i := range list {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		h := &tar.Header{Name: i.name, Mode: int64(i.mode.Perm()), Uid: int(i.uid), Gid: int(i.gid),
			ModTime: i.modified, Format: tar.FormatPAX, Typeflag: tar.TypeReg, Size: i.size, Linkname: i.link}
		switch i.mode.Type() {
		case fs.ModeDir:
			h.Typeflag, h.Size = tar.TypeDir, 0
		case fs.ModeSymlink:
			h.Typeflag, h.Size = tar.TypeSymlink, 0
		}
		if err := out.WriteHeader(h); err != nil {
			return err
		}
		fmt.Fprintf(sum, "%q %c %o %d:%d %q %d\n", h.Name, h.Typeflag, h.Mode, h.Uid, h.Gid, h.Linkname, h.Size)
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if err := i.read(root, io.MultiWriter(out, sum)); err != nil {
			return err
		}
	}
	return out.Close()
}

// read copies the content of a file.
func (i *item) read(root *os.Root, w io.Writer) error {
	if i.source == "" {
		_, err := io.WriteString(w, i.content)
		return err
	}
	f, err := root.Open(i.source)
	if err != nil {
		return err
	}
	defer f.Close()
	_, err = io.CopyN(w, f, i.size)
	if errors.Is(err, io.EOF) {
		err = fmt.Errorf("%.200q became shorter while it was copied", i.source)
	}
	return err
}

// copy carries out a COPY or an ADD.
func (b *build) copy(ctx context.Context, st *state, i instruction) (cached bool, err error) {
	dir, ignored, done, err := b.source(ctx, i.copies.from)
	if err != nil {
		return false, err
	}
	defer done()
	var root *os.Root
	if dir != "" {
		if root, err = os.OpenRoot(dir); err != nil {
			return false, err
		}
		defer root.Close()
	}
	c := &collector{ctx: ctx, build: b, root: root, ignored: ignored, copies: i.copies}
	if err := c.place(st); err != nil {
		return false, err
	}
	if err := c.collect(); err != nil {
		return false, err
	}
	if i.kind == kindAdd {
		if err := c.refuseArchives(); err != nil {
			return false, err
		}
	}
	sum := sha256.New()
	if err := c.list.write(ctx, root, io.Discard, charged{sum, b}); err != nil {
		return false, err
	}
	before := hex.EncodeToString(sum.Sum(nil))
	return b.layer(st, hash(string(st.key[:]), "copy", before), func() (string, error) {
		sum.Reset()
		tree, err := b.add(ctx, st, func(w io.Writer) error { return c.list.write(ctx, root, w, sum) })
		if err == nil && hex.EncodeToString(sum.Sum(nil)) != before {
			err = sandbox.Invalidf("COPY", "a file changed while it was copied")
		}
		return tree, err
	})
}

// source returns the folder from which a COPY copies, until done, and which of its files are left out.
func (b *build) source(ctx context.Context, from string) (dir string, out *ignored, done func(), err error) {
	done = func() {}
	if from == "" {
		if b.want.Context == "" {
			return "", nil, done, nil
		}
		out, err = readIgnored(b.want.Context)
		return b.want.Context, out, done, err
	}
	if st := b.stages[strings.ToLower(from)]; st != nil {
		if st.tree == "" {
			return "", nil, nil, sandbox.Invalidf("COPY", "the stage %.80q has no files", from)
		}
		return b.folder(st), nil, done, nil
	}
	i, err := b.image(ctx, from)
	if err == nil {
		err = b.hold(i.Tree)
	}
	if err != nil {
		return "", nil, nil, err
	}
	return b.Images.Files(i.Tree), nil, func() { b.drop(i.Tree) }, nil
}

// collector finds the files of a COPY.
type collector struct {
	ctx      context.Context
	build    *build
	err      error // of add and isIgnored
	root     *os.Root
	ignored  *ignored // nil leaves out nothing
	copies   copying
	to       string // where in the image, relative to its root
	toFolder bool   // to is a folder
	user     sandbox.User
	mode     fs.FileMode // of files and folders; 0 keeps theirs
	list     items
	names    int // bytes of the names in list
}

// place resolves the destination and the owner.
func (c *collector) place(st *state) error {
	b := c.build
	to := c.copies.to
	c.toFolder = strings.HasSuffix(to, "/") || to == "." || strings.HasSuffix(to, "/.") ||
		len(c.copies.sources)+len(c.copies.inline) > 1
	if !path.IsAbs(to) {
		to = path.Join("/", st.config.Dir, to)
	}
	if c.to = path.Clean(to)[1:]; c.to == "" {
		c.toFolder = true
	}
	if at := b.folder(st); at != "" && image.IsFolder(at, c.to) {
		c.toFolder = true
	}
	if c.copies.owner != "" {
		var err error
		if c.user, _, err = b.userOf(st, c.copies.owner); err != nil {
			return err
		}
	}
	if c.copies.mode != "" {
		mode, err := strconv.ParseUint(c.copies.mode, 8, 12)
		if err != nil {
			return sandbox.Invalidf("--chmod", "%.80q is not octal", c.copies.mode)
		}
		c.mode = fs.FileMode(mode) & fs.ModePerm
	}
	return nil
}

func (c *collector) collect() error {
	for _, f := range c.copies.inline { // the text of the Dockerfile bounds them
		c.add(item{name: c.target(f.name), content: f.content, size: int64(len(f.content)), mode: 0o644})
	}
	for _, source := range c.copies.sources {
		if c.root == nil {
			return sandbox.Invalidf("COPY", "%.200q: there is no folder to copy from", source)
		}
		names, err := c.match(source)
		if err != nil {
			return err
		}
		if len(names) > 1 {
			c.toFolder = true
		}
		for _, name := range names {
			if err := c.take(name); err != nil {
				return fmt.Errorf("copy %.200q: %w", source, err)
			}
			if c.err != nil {
				return c.err
			}
		}
	}
	return c.err
}

// match returns the names that a source stands for.
func (c *collector) match(source string) ([]string, error) {
	name := path.Clean(strings.TrimLeft(source, "/"))
	switch {
	case name == ".." || strings.HasPrefix(name, "../"):
		err := sandbox.Invalidf("COPY", "%.200q is outside the folder that is copied from", source)
		err.Fix = "copy it into that folder, or name a folder that contains both"
		return nil, err
	case !strings.ContainsAny(name, `*?[\`):
		if _, err := c.root.Lstat(name); err != nil || c.isIgnored(name) {
			return nil, c.missing(source, err)
		}
		return []string{name}, nil
	}
	found, err := c.glob(name)
	if errors.Is(err, path.ErrBadPattern) {
		return nil, sandbox.Invalidf("COPY", "%.200q: %v", source, err)
	}
	if err != nil {
		return nil, err
	}
	var names []string
	for _, name := range found {
		if !c.isIgnored(name) {
			names = append(names, name)
		}
	}
	if len(names) == 0 {
		return nil, c.missing(source, nil)
	}
	return names, nil
}

func (c *collector) missing(source string, err error) error {
	switch {
	case c.err != nil:
		return c.err
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return sandbox.Invalidf("COPY", "%.200q: %v", source, err)
	case err == nil && c.ignored != nil:
		return sandbox.Invalidf("COPY", "%.200q is not there, or .dockerignore leaves it out", source)
	}
	return sandbox.Invalidf("COPY", "%.200q is not there", source)
}

func (c *collector) isIgnored(name string) bool {
	if c.ignored == nil || name == "." {
		return false
	}
	if c.err == nil {
		c.err = c.build.spend(c.ignored.work(name))
	}
	if c.err != nil {
		return true
	}
	ignored, err := c.ignored.MatchesOrParentMatches(name)
	return err == nil && ignored
}

// target returns where a file goes.
func (c *collector) target(name string) string {
	if c.toFolder {
		return path.Join(c.to, path.Base(name))
	}
	return c.to
}

// take adds a file or a link, or what is in a folder.
func (c *collector) take(source string) error {
	info, err := c.root.Lstat(source)
	if err != nil {
		return err
	}
	if !info.IsDir() {
		return c.addFile(source, c.target(source), info)
	}
	if c.to != "" {
		c.add(item{name: c.to, mode: info.Mode(), modified: info.ModTime()})
	}
	from := len(c.list)
	err = walk.Dir(c.root.FS(), source, func(name string, e fs.DirEntry) error {
		if err := errors.Join(context.Cause(c.ctx), c.err); err != nil {
			return err
		}
		if c.isIgnored(name) {
			if e.IsDir() && !c.ignored.Exclusions() {
				return fs.SkipDir
			}
			return nil
		}
		info, err := e.Info()
		if err != nil {
			return err
		}
		rel := name
		if source != "." {
			rel = strings.TrimPrefix(name, source+"/")
		}
		return c.addFile(name, path.Join(c.to, rel), info)
	})
	slices.SortFunc(c.list[from:], func(a, b item) int { return strings.Compare(a.name, b.name) }) // for its digest
	return err
}

// addFile adds a file, folder or link. Sockets, pipes and devices are left out.
func (c *collector) addFile(source, name string, info fs.FileInfo) error {
	i := item{name: name, source: source, mode: info.Mode(), modified: info.ModTime()}
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		var err error
		if i.link, err = c.root.Readlink(source); err != nil {
			return err
		}
	case 0:
		i.size = info.Size()
	case fs.ModeDir:
	default:
		return nil
	}
	c.add(i)
	return nil
}

func (c *collector) add(i item) {
	if c.err == nil {
		if c.err = c.build.bound(i.size / hashedBytes); c.err == nil { // charged once it is hashed
			c.err = c.build.spend(itemWork)
		}
	}
	if c.err == nil && len(c.list) >= c.build.Images.Limits.Entries {
		c.err = tooLarge("it copies more files than an image may have")
	}
	if c.names += len(i.name) + len(i.source) + len(i.link); c.err == nil && c.build.MaxWork > 0 && c.names > maxNames {
		c.err = tooLarge("the files of a COPY have names of more than " + sandbox.FormatBytes(maxNames))
	}
	if c.err != nil {
		return
	}
	i.uid, i.gid = c.user.UID, c.user.GID
	if c.mode != 0 {
		i.mode = i.mode.Type() | c.mode
	}
	c.list = append(c.list, i)
}

// refuseArchives refuses files that Docker's ADD would unpack.
func (c *collector) refuseArchives() error {
	for _, i := range c.list {
		if i.source == "" || i.mode.Type() != 0 {
			continue
		}
		f, err := c.root.Open(i.source)
		if err != nil {
			return err
		}
		var head [262]byte
		n, err := io.ReadFull(f, head[:])
		f.Close()
		if err != nil && !errors.Is(err, io.EOF) && !errors.Is(err, io.ErrUnexpectedEOF) {
			return err
		}
		if isArchive(head[:n]) {
			err := sandbox.Invalidf("ADD", "%.200q is an archive, which ADD does not unpack here", i.source)
			err.Fix = "use COPY, and unpack it by RUN tar"
			return err
		}
	}
	return nil
}

// isArchive reports whether a file begins as tar, gzip, bzip2, xz or Zstandard do.
func isArchive(head []byte) bool {
	for _, magic := range []string{"\x1f\x8b", "BZh", "\xfd7zXZ\x00", "\x28\xb5\x2f\xfd"} {
		if bytes.HasPrefix(head, []byte(magic)) {
			return true
		}
	}
	return len(head) >= 262 && string(head[257:262]) == "ustar"
}
