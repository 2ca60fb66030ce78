package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"time"
)

const stepsDir = "steps" // of the store: one record per step of a build

// step is the record of a step of a build: which tree it made.
type step struct {
	Tree string `json:"tree"`
}

// Derive makes a tree of the layers of a parent and a new layer, an uncompressed archive that may be hostile. Parent ""
// has no layers. Errors are Invalid for a broken archive and TooLarge.
func (s *Store) Derive(ctx context.Context, parent string, layer io.Reader) (tree string, err error) {
	record := treeRecord{}
	if parent != "" {
		release, err := s.trees.Hold(parent)
		if err != nil {
			return "", err
		}
		defer release()
		if _, err := s.trees.Record(parent, &record); err != nil {
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
	if parent != "" {
		if err := copyTree(s.trees.Files(parent), draft.Files()); err != nil {
			return "", err
		}
	}
	u, err := newUnpacker(draft.Files(), s.Limits.after(record))
	if err != nil {
		return "", err
	}
	r := &meteredReader{ctx: ctx, r: layer, sum: sha256.New(), left: u.limits.Bytes + maxPadding,
		progress: func(int64) {}}
	err = u.layer(r)
	if r.err != nil {
		err = r.err
	}
	if err == nil {
		_, err = io.Copy(io.Discard, r)
	}
	record.Layers = append(record.Layers, "sha256:"+hex.EncodeToString(r.sum.Sum(nil)))
	record.Bytes, record.Entries = s.Limits.Bytes-u.limits.Bytes, s.Limits.Entries-u.limits.Entries
	if err = errors.Join(err, u.Close()); err != nil {
		return "", err
	}
	published, tree = true, treeOf(record.Layers)
	return tree, draft.Publish(tree, record)
}

// Put records a tree as the image of a name, in place of an earlier one.
func (s *Store) Put(text, tree string, c Config) (Image, error) {
	full, err := fullName(text)
	if err != nil {
		return Image{}, err
	}
	var record treeRecord
	if _, err := s.trees.Record(tree, &record); err != nil {
		return Image{}, err
	}
	configText, err := json.Marshal(c)
	if err != nil {
		return Image{}, err
	}
	sum := sha256.Sum256(append([]byte(tree+"\n"), configText...))
	i := Image{Name: full, Digest: "sha256:" + hex.EncodeToString(sum[:]), Tree: tree, Config: c,
		AddedAt: time.Now().UTC(), Bytes: record.Bytes, Entries: record.Entries, LayerCount: len(record.Layers)}
	return i, s.write(i)
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
	if err != nil || json.Unmarshal(text, &made) != nil || !s.trees.Has(made.Tree) {
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

// PruneSteps removes the steps that no build has used for a time, with the trees that no image has. It returns the
// bytes of the removed trees; files that other trees share count too.
func (s *Store) PruneSteps(unused time.Duration) (bytes int64, err error) {
	files, err := filepath.Glob(filepath.Join(s.dir, stepsDir, "*.json"))
	if err != nil {
		return 0, err
	}
	images, err := s.List()
	if err != nil {
		return 0, err
	}
	named := map[string]bool{}
	for _, i := range images {
		named[i.Tree] = true
	}
	var errs []error
	for _, file := range files {
		var made step
		text, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(text, &made)
		}
		var record treeRecord
		used, recordErr := s.trees.Record(made.Tree, &record)
		switch {
		case err == nil && recordErr == nil && time.Since(used) < unused:
			continue
		case err == nil && recordErr == nil && !named[made.Tree]:
			gone, err := s.trees.Remove(made.Tree)
			if errs = append(errs, err); !gone {
				continue
			}
			bytes += record.Bytes
		}
		if err := os.Remove(file); !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return bytes, errors.Join(errs...)
}

// Files returns the folder of a tree that the caller holds.
func (s *Store) Files(tree string) string { return s.trees.Files(tree) }

// IsFolder reports whether a path of a tree is a folder. Links lead nowhere but inside the tree.
func IsFolder(tree, file string) bool {
	u, err := newUnpacker(tree, Limits{})
	if err != nil {
		return false
	}
	defer u.Close()
	return u.isFolder(file)
}
