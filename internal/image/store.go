package image

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/google/go-containerregistry/pkg/name"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Of the store.
const (
	namesDir  = "names" // one record per name
	namesLock = "names.lock"
)

// layoutVersion is part of each tree's digest: a change in what unpacking produces needs another one.
const layoutVersion = "fumehood image 2"

// Store keeps images in a folder that any number of processes share. Its methods are safe for concurrent use.
type Store struct {
	Limits Limits
	Space  int64 // bytes of all layers that builds made, half of it for one API key; 0 is no limit

	maxBytes int64         // see Bound
	stall    time.Duration // longest wait for a registry
	dir      string
	trees    *trees.Store
	making   making
	costs    *costs
	byDigest byDigest
	heads    trees.Facts[Image] // by file: the records of names, without their configurations

	reserving sync.Mutex // guards drafted; held while others make room
	drafted   int64      // bytes that are reserved for unpublished trees of images

	pulling sync.Mutex               // guards pulls
	pulls   map[string]chan struct{} // the images that are being fetched; closed at the end
}

// Image describes an image of the store.
type Image struct {
	Name       string    `json:"name"`            // with registry and tag, as it was added
	Digest     string    `json:"digest"`          // of the manifest; of the configuration if it comes from docker save
	Tree       string    `json:"tree"`            // of its root file system
	Config     Config    `json:"config,omitzero"` // of an image that Find returns
	AddedAt    time.Time `json:"added_at"`
	Bytes      int64     `json:"bytes"` // unpacked, as in Limits
	Entries    int       `json:"entries"`
	UsedAt     time.Time `json:"-"`
	LayerCount int       `json:"layers"`
	Owner      string    `json:"owner,omitempty"` // the API key that built it
	Built      bool      `json:"built,omitempty"` // it is a template

	recordBytes int64 // of its record on the disk
}

// treeRecord is the record of a tree.
type treeRecord struct {
	Layers  []string `json:"layers"` // digests of the uncompressed layers, the lowest first
	Bytes   int64    `json:"bytes"`
	Entries int      `json:"entries"`
	Added   int64    `json:"added,omitempty"`  // bytes of the last layer, if a build made it
	Owner   string   `json:"owner,omitempty"`  // the API key that built the last layer
	Parent  string   `json:"parent,omitempty"` // the tree below the last layer, if a build made it
}

// Open opens or creates a store.
func Open(dir string) (*Store, error) {
	kept, err := trees.Open(dir)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, namesDir), 0o700)
	}
	if err != nil {
		return nil, err
	}
	return &Store{Limits: DefaultLimits, maxBytes: DefaultMaxBytes, stall: stallTimeout, dir: dir, trees: kept,
		making: newMaking(), costs: costsIn(dir), pulls: map[string]chan struct{}{}}, nil
}

// fullName returns a name with its registry and tag.
func fullName(text string) (string, error) {
	ref, err := name.ParseReference(text)
	if err != nil {
		return "", sandbox.Invalidf("image", "%.200q is not the name of an image", text)
	}
	return nameOf(ref), nil
}

// nameOf returns the name of an image in full, with Docker's registry under its usual name.
func nameOf(ref name.Reference) string {
	full := ref.Name()
	if rest, ok := strings.CutPrefix(full, name.DefaultRegistry+"/"); ok {
		return "docker.io/" + rest
	}
	return full
}

func (s *Store) nameFile(full string) string {
	sum := sha256.Sum256([]byte(full))
	return filepath.Join(s.dir, namesDir, hex.EncodeToString(sum[:])+".json")
}

// lockNames locks all names. Until done, no process names a tree, or removes one that is named.
func (s *Store) lockNames() (done func(), err error) {
	return s.trees.Lock(namesLock)
}

// Find returns the image of a name.
func (s *Store) Find(text string) (Image, error) {
	full, err := fullName(text)
	if err != nil {
		return Image{}, err
	}
	i, err := s.read(s.nameFile(full))
	if errors.Is(err, fs.ErrNotExist) {
		if known, ok := s.findDigest(full); ok {
			return known, nil
		}
		return i, &sandbox.Error{Kind: sandbox.NotFound, Op: "image", Msg: text + " is not on this machine",
			Fix: "fetch it: fumehood image pull " + text}
	}
	return i, err
}

// findDigest returns an image that was added by a tag, for a name with its digest.
func (s *Store) findDigest(full string) (Image, bool) {
	repository, digest, ok := strings.Cut(full, "@")
	if !ok {
		return Image{}, false
	}
	names := s.namesOf(digest)
	i := slices.IndexFunc(names, func(name string) bool { return strings.HasPrefix(name, repository+":") })
	if i < 0 {
		return Image{}, false
	}
	found, err := s.read(s.nameFile(names[i]))
	return found, err == nil
}

// byDigest is an index of the names, so that a request with an unknown digest reads no records.
type byDigest struct {
	mu    sync.Mutex
	made  time.Time // the time of the folder of names that it is of; zero is no index
	names map[string][]string
}

// settled is how old a change of a folder must be so that a later one has another time.
const settled = time.Second

// namesOf returns the names of the images with a digest.
func (s *Store) namesOf(digest string) []string {
	x := &s.byDigest
	x.mu.Lock()
	defer x.mu.Unlock()
	folder, err := os.Stat(filepath.Join(s.dir, namesDir))
	if err != nil {
		return nil
	}
	changed := folder.ModTime()
	if x.made.Equal(changed) {
		return x.names[digest]
	}
	files, err := s.nameFiles()
	if err != nil {
		return nil
	}
	x.made, x.names = time.Time{}, map[string][]string{}
	for _, file := range files {
		if i, err := s.nameHead(file); err == nil { // it may be removed meanwhile
			x.names[i.Digest] = append(x.names[i.Digest], i.Name)
		}
	}
	for _, names := range x.names {
		slices.Sort(names)
	}
	if age := time.Since(changed); age > settled {
		x.made = changed
	}
	return x.names[digest]
}

// read reads the record of a name.
func (s *Store) read(file string) (i Image, err error) {
	f, err := os.Open(file)
	if err != nil {
		return i, err
	}
	defer f.Close()
	record := json.NewDecoder(f)
	if err = record.Decode(&i); err == nil {
		err = record.Decode(&i.Config)
	}
	if err != nil && (i.Name == "" || !errors.Is(err, io.EOF)) { // earlier versions wrote one line
		return Image{}, damaged(file)
	}
	cost, err := s.cost(i.Tree)
	i.UsedAt = cost.used
	return i, err
}

// nameHead is head without the time of the last use. Each build and each new image reads those of all names.
func (s *Store) nameHead(file string) (Image, error) {
	info, err := os.Stat(file)
	if err != nil {
		return Image{}, err
	}
	return s.heads.Of(file, info, func() (i Image, err error) {
		f, err := os.Open(file)
		if err != nil {
			return i, err
		}
		defer f.Close()
		if json.NewDecoder(f).Decode(&i) != nil {
			return Image{}, damaged(file)
		}
		i.Config, i.recordBytes = Config{}, trees.SizeOnDisk(info.Size())
		return i, nil
	})
}

// head reads the record of a name without the configuration, which may be large.
func (s *Store) head(file string) (i Image, err error) {
	i, err = s.nameHead(file)
	if err != nil {
		return i, err
	}
	cost, err := s.cost(i.Tree)
	i.UsedAt = cost.used
	return i, err
}

// damaged returns the error of a damaged record. It counts as missing: the next image of its name replaces it.
func damaged(file string) error { return fmt.Errorf("%s is damaged: %w", file, fs.ErrNotExist) }

// nameFiles lists the records of names.
func (s *Store) nameFiles() ([]string, error) {
	return filepath.Glob(filepath.Join(s.dir, namesDir, "*.json"))
}

// List returns the images by name, without their configurations.
func (s *Store) List() ([]Image, error) {
	files, err := s.nameFiles()
	if err != nil {
		return nil, err
	}
	list := []Image{}
	for _, file := range files {
		if i, err := s.head(file); err == nil { // it may be removed meanwhile
			list = append(list, i)
		}
	}
	s.heads.Retain(files)
	slices.SortFunc(list, func(a, b Image) int { return strings.Compare(a.Name, b.Name) })
	return list, nil
}

// Names returns about how many names there are: those in the cache.
func (s *Store) Names() int { return s.heads.Count() }

// Hold returns the folder of an image's root file system. It exists until release.
func (s *Store) Hold(i Image) (dir string, release func(), err error) {
	release, err = s.trees.Hold(i.Tree)
	return s.trees.Files(i.Tree), release, err
}

// Remove removes a name, and its tree if no other name refers to it and no tree is above it, whose files are the same.
// A tree in use is an error.
func (s *Store) Remove(text string) error {
	tree, err := s.takeNamed(text)
	if tree == "" {
		return err
	}
	return errors.Join(err, trees.RemoveAll(tree))
}

// takeNamed is Remove, and returns the folder of the tree that is yet to be removed, or "".
func (s *Store) takeNamed(text string) (tree string, err error) {
	done, err := s.lockNames()
	if err != nil {
		return "", err
	}
	defer done()
	i, err := s.Find(text)
	if err != nil {
		return "", err
	}
	list, err := s.List()
	if err != nil {
		return "", err
	}
	shared := slices.ContainsFunc(list, func(o Image) bool { return o.Tree == i.Tree && o.Name != i.Name })
	above := false
	if err := s.eachCost(s.knownCost, func(_ string, c treeCost) { above = above || c.parent == i.Tree }); err != nil {
		return "", err
	}
	if !shared && !above {
		if tree, err = s.trees.Take(i.Tree); err != nil {
			return "", err
		}
		if tree == "" && s.trees.Has(i.Tree) {
			return "", &sandbox.Error{Kind: sandbox.Exists, Op: "image", Msg: text + " is in use",
				Fix: "end its sandboxes first: fumehood ps"}
		}
	}
	return tree, os.Remove(s.nameFile(i.Name))
}

// name records an image whose tree is in the store, but not in place of a template that was built after began.
func (s *Store) name(i Image, began time.Time) error {
	done, err := s.lockNames()
	if err != nil {
		return err
	}
	defer done()
	if !s.whole(i.Tree) {
		return &sandbox.Error{Kind: sandbox.Busy, Op: "image", Msg: i.Name + " was removed to make room for others",
			Fix: "try again"}
	}
	if was, err := s.nameHead(s.nameFile(i.Name)); err == nil && was.Built && was.AddedAt.After(began) {
		return &sandbox.Error{Kind: sandbox.Exists, Op: "image", Msg: "a template " + i.Name + " was built meanwhile",
			Fix: "use it, or add the image under another name"}
	}
	return s.write(i)
}

// write records an image under its name: a line without its configuration, and a line with it, which each request for
// the image decodes. The caller holds the lock of the names.
func (s *Store) write(i Image) error {
	c, err := json.Marshal(i.Config)
	if err != nil {
		return err
	}
	if len(c) > maxConfig || len(i.Config.Env) > maxVariables {
		return tooLarge("variables, or bytes of variables, commands and names,")
	}
	i.Config = Config{}
	return writeRecord(s.nameFile(i.Name), i, json.RawMessage(c))
}

// writeRecord replaces a file at once, by a line for each part.
func writeRecord(file string, parts ...any) error {
	var text []byte
	for _, part := range parts {
		line, err := json.Marshal(part)
		if err != nil {
			return err
		}
		text = append(append(text, line...), '\n')
	}
	f, err := os.CreateTemp(filepath.Dir(file), "new-")
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), file)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// treeOf returns the digest of the tree that layers make.
func treeOf(layers []string) string {
	sum := sha256.Sum256([]byte(layoutVersion + "\n" + strings.Join(layers, "\n")))
	return hex.EncodeToString(sum[:])
}
