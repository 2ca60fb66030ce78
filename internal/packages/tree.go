package packages

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"time"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of a layer.
const (
	maxLayerFiles = 200_000  // and as many folders
	maxPath       = 1024     // bytes
	maxLayerPaths = 32 << 20 // bytes of the paths of all files, which a draft keeps
)

// draft is an unpublished layer.
type draft struct {
	*trees.Draft
	root  *os.Root // of its files; no path from a sandbox leaves it
	files []draftFile
	bytes int64
	paths int             // bytes of the paths of files
	made  map[string]bool // folders
}

type draftFile struct {
	path string
	mode fs.FileMode
	size int64
	sum  [sha256.Size]byte
}

func (c *Cache) newDraft() (*draft, error) {
	kept, err := c.trees.NewDraft()
	if err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(kept.Files())
	if err != nil {
		return nil, errors.Join(err, kept.Discard())
	}
	return &draft{Draft: kept, root: root, made: map[string]bool{".": true}}, nil
}

// add writes one file, whose path, mode and content are hostile. Of the mode it keeps only whether the file is
// executable.
func (d *draft) add(f sandbox.FileInfo, content io.Reader) error {
	if len(d.files) >= maxLayerFiles {
		return tooMuch(fmt.Sprintf("they have more than %d files", maxLayerFiles))
	}
	if len(f.Path) > maxPath || !filepath.IsLocal(f.Path) || path.Clean(f.Path) != f.Path {
		return sandbox.Invalidf("packages", "they hold a file with the path %.80q", f.Path)
	}
	if d.paths += len(f.Path); d.paths > maxLayerPaths {
		return tooMuch("their files have paths of more than " + sandbox.FormatBytes(maxLayerPaths))
	}
	if err := d.makeDir(path.Dir(f.Path)); err != nil {
		return err
	}
	file := draftFile{path: f.Path, mode: 0o644}
	if f.Mode&0o111 != 0 {
		file.mode = 0o755
	}
	to, err := d.root.OpenFile(f.Path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, file.mode)
	if err != nil {
		return cacheError(err)
	}
	sum := sha256.New()
	file.size, err = io.Copy(io.MultiWriter(to, sum), content)
	if err = errors.Join(err, to.Chmod(file.mode), to.Close()); err != nil {
		return cacheError(err)
	}
	sum.Sum(file.sum[:0])
	d.bytes += trees.SizeOnDisk(file.size)
	d.files = append(d.files, file)
	return nil
}

func (d *draft) makeDir(dir string) error {
	if d.made[dir] {
		return nil
	}
	if err := d.makeDir(path.Dir(dir)); err != nil {
		return err
	}
	if len(d.made) >= maxLayerFiles {
		return tooMuch(fmt.Sprintf("they have more than %d folders", maxLayerFiles))
	}
	d.made[dir] = true
	d.bytes += trees.BlockBytes
	err := d.root.Mkdir(dir, 0o755)
	if err == nil {
		err = d.root.Chmod(dir, 0o755)
	}
	return cacheError(err)
}

func tooMuch(what string) error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Op: "packages", Msg: what, Fix: "ask for fewer packages"}
}

// digest covers the paths, permissions and contents of all files.
func (d *draft) digest(at string) string {
	slices.SortFunc(d.files, func(a, b draftFile) int { return cmp.Compare(a.path, b.path) })
	sum := sha256.New()
	fmt.Fprintf(sum, "%s\n", at)
	for _, f := range d.files {
		fmt.Fprintf(sum, "%s\x00%o %d %x\n", f.path, f.mode, f.size, f.sum)
	}
	return hex.EncodeToString(sum.Sum(nil))
}

// publish adds the draft to the cache, unless the cache has a layer with the same content.
func (d *draft) publish(l Layer) (digest string, err error) {
	l.Digest, l.Files, l.Made = d.digest(l.At), len(d.files), time.Now().UTC()
	record, err := json.Marshal(l) // its list of packages may be long
	if err != nil {
		return "", errors.Join(err, d.discard())
	}
	l.Bytes = d.bytes + trees.SizeOnDisk(int64(len(record)))
	if err := errors.Join(d.root.Close(), d.Publish(l.Digest, l)); err != nil {
		return "", err
	}
	return l.Digest, nil
}

// discard removes the draft.
func (d *draft) discard() error { return errors.Join(d.root.Close(), d.Discard()) }
