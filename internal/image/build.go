package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const stepsDir = "steps" // of the store: one record per step of a build

// step is the record of a step of a build: which tree it made.
type step struct {
	Tree string `json:"tree"`
}

// Layer is a new layer of a tree.
type Layer struct {
	Parent  string    // the tree below it; "" has no layers
	Owner   string    // the API key that builds it; "" is the operator
	Content io.Reader // an uncompressed archive, which may be hostile

	// Spend is called before entries and their bytes are written, and ends Derive by an error. nil is no bound.
	Spend func(entries int, bytes int64) error
}

// What a tree takes besides its files: its folders and the file of its lock, and for each layer a digest in its record.
const (
	treeBytes = 3 * trees.BlockBytes
	layerText = 80
)

// Derive makes a tree of the layers of a parent and a new layer. Errors are Invalid for a broken archive, TooLarge,
// Quota where the layers of builds have no more space, and those of Spend.
func (s *Store) Derive(ctx context.Context, layer Layer) (tree string, err error) {
	if s.Space > 0 {
		if !s.making.turns.Wait(ctx, layer.Owner, 1, math.MaxInt64) {
			return "", context.Cause(ctx)
		}
		defer s.making.turns.Give(layer.Owner, 1)
	}
	record, parent := treeRecord{}, layer.Parent
	if parent != "" {
		release, err := s.trees.Hold(parent)
		if err != nil {
			return "", err
		}
		defer release()
		if _, _, err := s.trees.Record(parent, &record); err != nil {
			return "", err
		}
	}
	draft, err := s.trees.NewDraft()
	if err != nil {
		return "", err
	}
	published := false
	defer func() {
		if !published {
			err = errors.Join(err, draft.Discard())
		}
	}()
	own := int64(0) // bytes of folders, which cannot be shared as files are, and of files with too many names for that
	if parent != "" {
		if err = layer.spend(record.Entries, 0); err == nil {
			own, err = copyTree(ctx, s.trees.Files(parent), draft.Files(),
				func(bytes int64) error { return layer.spend(0, bytes) })
		}
		if err != nil {
			return "", err
		}
	}
	own += treeBytes + trees.SizeOnDisk(layerText*int64(len(record.Layers)+1))
	space := &layerSpace{store: s, owner: layer.Owner}
	defer space.release()
	limits := s.Limits.after(record)
	u, err := newUnpacker(draft.Files(), limits)
	if err != nil {
		return "", err
	}
	if err = space.open(u, own); err != nil {
		return "", errors.Join(err, u.Close())
	}
	u.spend = layer.spend
	r := &meteredReader{ctx: ctx, r: layer.Content, sum: sha256.New(), left: u.limits.Bytes + maxPadding,
		progress: func(int64) {}}
	err = u.layer(r)
	if r.err != nil {
		err = r.err
	}
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	record.Layers = append(record.Layers, "sha256:"+hex.EncodeToString(r.sum.Sum(nil)))
	added := limits.Bytes - u.limits.Bytes
	record.Added, record.Owner, record.Parent = added+own, layer.Owner, parent
	record.Bytes, record.Entries = record.Bytes+added, s.Limits.Entries-u.limits.Entries
	if err = errors.Join(err, u.Close()); err != nil {
		return "", err
	}
	published, tree = true, treeOf(record.Layers)
	return tree, draft.Publish(tree, record)
}

func (l *Layer) spend(entries int, bytes int64) error {
	if l.Spend == nil {
		return nil
	}
	return l.Spend(entries, bytes)
}

// CheckName checks that an owner may build an image of a name: requests can name it, it has no digest, no other owner
// has one, and it is not from elsewhere. Owner "" may build any.
func (s *Store) CheckName(text, owner string) error {
	if strings.Contains(text, "@") {
		return sandbox.Invalidf("name", "%.200q has a digest, which only an image of a registry has", text)
	}
	if sandbox.CheckImage(text) != nil {
		return sandbox.Invalidf("name", "%.200q is not the name of an image", text)
	}
	i, err := s.Find(text)
	switch {
	case sandbox.KindOf(err) == sandbox.NotFound:
		return nil
	case err != nil:
		return err
	case owner != "" && (!i.Built || i.Owner != owner):
		return &sandbox.Error{Kind: sandbox.Exists, Op: "name", Msg: text + " is taken", Fix: "choose another name"}
	}
	return nil
}

// Put records a tree that the caller holds as the template of a name and an owner, in place of an earlier one. Errors
// are those of CheckName.
func (s *Store) Put(text, owner, tree string, c Config) (Image, error) {
	i, err := s.put(text, owner, tree, c)
	if err != nil {
		return i, err
	}
	// The next image tries again.
	_, _, _, _ = s.prune(s.maxBytes, func(t *keptTree) bool { return owner == "" || t.isOf(owner) })
	return i, nil
}

func (s *Store) put(text, owner, tree string, c Config) (Image, error) {
	done, err := s.lockNames()
	if err != nil {
		return Image{}, err
	}
	defer done()
	full, err := fullName(text)
	if err == nil {
		err = s.CheckName(text, owner)
	}
	if err != nil {
		return Image{}, err
	}
	var record treeRecord
	if _, _, err := s.trees.Record(tree, &record); err != nil {
		return Image{}, err
	}
	configText, err := json.Marshal(c)
	if err == nil {
		err = s.checkSpace(full, owner, int64(len(configText)))
	}
	if err != nil {
		return Image{}, err
	}
	sum := sha256.Sum256(append([]byte(tree+"\n"), configText...))
	i := Image{Name: full, Digest: "sha256:" + hex.EncodeToString(sum[:]), Tree: tree, Config: c, Owner: owner,
		Built:   true,
		AddedAt: time.Now().UTC(), Bytes: record.Bytes, Entries: record.Entries, LayerCount: len(record.Layers)}
	return i, s.write(i)
}

// Scratch returns an unpublished tree for the files of a build, which only this user can read. The caller discards it.
// If the process ends before, another one that uses the store removes it.
func (s *Store) Scratch() (*trees.Draft, error) {
	draft, err := s.trees.NewDraft()
	if err == nil {
		if err = os.Chmod(draft.Files(), 0o700); err != nil {
			err = errors.Join(err, draft.Discard())
		}
	}
	return draft, err
}

// HoldTree returns the folder of a tree, which exists until release.
func (s *Store) HoldTree(tree string) (dir string, release func(), err error) {
	release, err = s.trees.Hold(tree)
	return s.trees.Files(tree), release, err
}

func (s *Store) stepFile(key [sha256.Size]byte) string {
	return filepath.Join(s.dir, stepsDir, hex.EncodeToString(key[:])+".json")
}

// Step returns the tree that an earlier step of a build made, or "". key is a hash of all that the step depends on.
func (s *Store) Step(key [sha256.Size]byte) string {
	var made step
	text, err := os.ReadFile(s.stepFile(key))
	if err != nil || json.Unmarshal(text, &made) != nil || !s.whole(made.Tree) {
		return ""
	}
	return made.Tree
}

// AddStep records the tree that a step made.
func (s *Store) AddStep(key [sha256.Size]byte, tree string) error {
	if err := os.MkdirAll(filepath.Join(s.dir, stepsDir), 0o700); err != nil {
		return err
	}
	return writeRecord(s.stepFile(key), step{Tree: tree})
}

// maxSteps bounds the records of one tree: any number of steps may make the same.
const maxSteps = 4

// steps returns the trees that steps made. It removes records of trees that are gone, and the oldest of too many.
func (s *Store) steps() (map[string]bool, error) {
	files, err := filepath.Glob(filepath.Join(s.dir, stepsDir, "*.json"))
	if err != nil {
		return nil, err
	}
	records := map[string][]string{} // by tree
	gone := []string(nil)
	for _, file := range files {
		var made step
		text, err := os.ReadFile(file)
		if err == nil && json.Unmarshal(text, &made) == nil && s.whole(made.Tree) {
			records[made.Tree] = append(records[made.Tree], file)
		} else {
			gone = append(gone, file)
		}
	}
	made := map[string]bool{}
	for tree, list := range records {
		made[tree] = true
		if len(list) > maxSteps {
			gone = append(gone, oldest(list, len(list)-maxSteps)...)
		}
	}
	for _, file := range gone {
		if err := os.Remove(file); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return nil, err
		}
	}
	return made, nil
}

// oldest returns the n oldest of some files.
func oldest(files []string, n int) []string {
	made := map[string]time.Time{}
	for _, file := range files {
		if info, err := os.Stat(file); err == nil { // it may be removed meanwhile
			made[file] = info.ModTime()
		}
	}
	slices.SortFunc(files, func(a, b string) int { return made[a].Compare(made[b]) })
	return files[:n]
}

// Files returns the folder of a tree that the caller holds.
func (s *Store) Files(tree string) string { return s.trees.Files(tree) }

// IsFolder reports whether a path of a tree is a folder. Links lead nowhere but inside the tree.
func IsFolder(tree, file string) bool {
	u, err := newUnpacker(tree, Limits{Links: 1})
	if err != nil {
		return false
	}
	defer u.Close()
	return u.isFolder(file)
}
