package packages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const requestsDir = "requests" // of a cache, beside its trees

// Cache keeps layers in a folder, which any number of processes share. Its methods are safe for concurrent use.
type Cache struct {
	dir   string
	trees *trees.Store       // of layers; the record of each is its Layer
	sizes trees.Facts[int64] // bytes of layers, whose records may list thousands of packages
}

// Layer describes a layer of the cache.
type Layer struct {
	Digest    string            `json:"digest"`
	Language  string            `json:"language"`
	At        string            `json:"at"`
	Requested []string          `json:"requested"` // the requirements
	Packages  []sandbox.Package `json:"packages"`
	Bytes     int64             `json:"bytes"`
	Files     int               `json:"files"`
	Made      time.Time         `json:"made"`
	Hits      int64             `json:"-"` // uses after the first
	Used      time.Time         `json:"-"` // the last use

	RecordBytes int64 `json:"-"` // of this description, encoded
}

// answer is the recorded answer to a key.
type answer struct {
	Digest    string            `json:"digest"` // "" if no package is needed
	Packages  []sandbox.Package `json:"packages"`
	Lock      string            `json:"lock"`
	Requested []string          `json:"requested"`
	Missing   []string          `json:"missing"`
	Optional  []string          `json:"optional,omitempty"` // for one code; a set has none
	Made      time.Time         `json:"made"`
}

// OpenCache opens or creates a cache, and removes the unfinished work of processes that have ended.
func OpenCache(dir string) (*Cache, error) {
	kept, err := trees.Open(dir)
	if err == nil {
		err = os.MkdirAll(filepath.Join(dir, requestsDir), 0o755)
	}
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "open the package cache", Err: err,
			Fix: "make the folder writable", Fixes: setParam("package_cache", "DIR", "name another one")}
	}
	return &Cache{dir: dir, trees: kept}, nil
}

// request is the path of a file of the requests.
func (c *Cache) request(name string) string { return filepath.Join(c.dir, requestsDir, name) }

// find returns the answer to a key, unless it is older than ttl or its layer was removed.
func (c *Cache) find(key string, ttl time.Duration) (a answer, ok bool) {
	if !c.recall(key, &a) || ttl > 0 && time.Since(a.Made) > ttl {
		return answer{}, false
	}
	name := c.request(key + ".json")
	if info, err := os.Stat(name); err == nil && time.Since(info.ModTime()) > noteUse {
		_ = os.Chtimes(name, time.Time{}, time.Now()) // a read-only cache still works
	}
	if a.Digest == "" {
		return a, true
	}
	return a, c.trees.Has(a.Digest)
}

// recall reads the record of a key.
func (c *Cache) recall(key string, into any) bool {
	text, err := os.ReadFile(c.request(key + ".json"))
	return err == nil && json.Unmarshal(text, into) == nil
}

const tempPrefix = "new-" // of a record that is being written

// remember writes the record of a key.
func (c *Cache) remember(key string, a any) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(c.request(""), tempPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.request(key+".json"))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	if rand.IntN(forgetEvery) == 0 {
		c.forgetOld()
	}
	return err
}

const forgetEvery = 100 // records, on average

func (c *Cache) describe(digest string) (l Layer, err error) {
	record, _, err := c.trees.Stat(digest)
	if err != nil {
		return l, err
	}
	var uses int64
	l.Used, uses, err = c.trees.Record(digest, &l)
	l.Hits, l.RecordBytes = max(uses-1, 0), record.Size()
	return l, err
}

// size returns the bytes of a layer and the time of its last use.
func (c *Cache) size(digest string) (bytes int64, used time.Time, err error) {
	record, used, err := c.trees.Stat(digest)
	if err != nil {
		return 0, used, err
	}
	bytes, err = c.sizes.Of(digest, record, func() (int64, error) {
		var l struct {
			Bytes int64 `json:"bytes"`
		}
		_, _, err := c.trees.Record(digest, &l)
		return l.Bytes, err
	})
	return bytes, used, err
}

// tree returns the folder of a layer's files.
func (c *Cache) tree(digest string) string { return c.trees.Files(digest) }

// List returns the layers, the least recently used first.
func (c *Cache) List() ([]Layer, error) {
	var list []Layer
	err := c.Each(func(l *Layer) error {
		list = append(list, *l)
		return nil
	})
	slices.Reverse(list)
	return list, err
}

// Each passes the layers to take, the most recently used first, until take fails. Only one is in memory.
func (c *Cache) Each(take func(*Layer) error) error {
	digests, err := c.trees.ByUse()
	if err != nil {
		return err
	}
	for _, digest := range digests {
		l, err := c.describe(digest)
		if err != nil {
			continue // it was removed meanwhile
		}
		if err := take(&l); err != nil {
			return err
		}
	}
	return nil
}

// Prune removes unused layers, the least recently used first, until the rest has at most that many bytes. It returns
// the removed layers. It keeps only the sizes of the others in memory.
func (c *Cache) Prune(most int64) (removed []Layer, err error) {
	digests, err := c.trees.Digests()
	if err != nil {
		return nil, err
	}
	type layerSize struct {
		digest string
		bytes  int64
		used   time.Time
	}
	var list []layerSize
	var total int64
	c.sizes.Retain(digests)
	for _, digest := range digests {
		l := layerSize{digest: digest}
		if l.bytes, l.used, err = c.size(digest); err == nil { // it may be removed meanwhile
			list, total = append(list, l), total+l.bytes
		}
	}
	slices.SortFunc(list, func(a, b layerSize) int { return a.used.Compare(b.used) })
	for _, l := range list {
		if total <= most {
			break
		}
		whole, err := c.describe(l.digest)
		if err != nil {
			continue // it was removed meanwhile
		}
		gone, err := c.trees.Remove(l.digest)
		if err != nil {
			return removed, fmt.Errorf("remove the layer %.12s: %w", l.digest, err)
		}
		if gone {
			total -= l.bytes
			removed = append(removed, whole)
		}
	}
	c.forgetOld()
	return removed, nil
}

// forgetOld removes the least recently used records beyond the limits, and leftovers of crashes. A lost record costs
// another survey and another installation.
func (c *Cache) forgetOld() {
	entries, _ := os.ReadDir(c.request(""))
	var answers []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // it was removed
		}
		if strings.HasSuffix(e.Name(), ".json") {
			answers = append(answers, info)
		} else if time.Since(info.ModTime()) > keepOthers {
			_ = os.Remove(c.request(e.Name()))
		}
	}
	slices.SortFunc(answers, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var bytes int64
	for i, info := range answers {
		if bytes += info.Size(); i >= maxKeys || bytes > maxKeyBytes || time.Since(info.ModTime()) > keepKeys {
			_ = os.Remove(c.request(info.Name()))
		}
	}
}

// Limits of the records.
const (
	maxKeys     = 20_000
	maxKeyBytes = 256 << 20
	keepKeys    = 30 * 24 * time.Hour
	keepOthers  = time.Hour   // unfinished records, and locks; no installation takes as long
	noteUse     = time.Minute // between the notes of uses of a record, in the time of its file
)
