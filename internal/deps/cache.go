package deps

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/rundir"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Folders and files of a cache.
const (
	layersDir   = "layers"
	requestsDir = "requests"
	workDir     = "work"
	treeDir     = "tree"
	layerFile   = "layer.json"
	usedFile    = "used"
	aloneFile   = "work.lock"
)

// Cache keeps layers in a folder, which any number of processes share. Its methods are safe for concurrent use.
type Cache struct {
	dir string // without links
}

// Layer describes a layer of the cache.
type Layer struct {
	Digest   string            `json:"digest"`
	Language string            `json:"language"`
	At       string            `json:"at"`
	Asked    []string          `json:"asked"` // the requirements
	Packages []sandbox.Package `json:"packages"`
	Bytes    int64             `json:"bytes"`
	Files    int               `json:"files"`
	Made     time.Time         `json:"made"`
	Hits     int64             `json:"-"` // uses after the first
	Used     time.Time         `json:"-"` // the last
}

// answer is what a key came to.
type answer struct {
	Digest   string            `json:"digest"` // "" if nothing is needed
	Packages []sandbox.Package `json:"packages"`
	Lock     string            `json:"lock"`
	Asked    []string          `json:"asked"`
	Missing  []string          `json:"missing"`
	Made     time.Time         `json:"made"`
}

// OpenCache opens or makes a cache and removes what dead processes left in it.
func OpenCache(dir string) (*Cache, error) {
	c := &Cache{}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		c.dir, err = filepath.EvalSymlinks(dir)
	}
	if err == nil {
		err = rundir.Judge(c.dir, "")
	}
	for _, name := range []string{layersDir, requestsDir, workDir} {
		if err == nil {
			err = os.MkdirAll(filepath.Join(c.dir, name), 0o755)
		}
	}
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "open the cache of packages", Err: err, Fix: "make the folder writable, or name another with --package-cache"}
	}
	c.sweep()
	return c, nil
}

// sweep removes what was never completed, unless somebody is at it.
func (c *Cache) sweep() {
	done, err := c.alone()
	if err != nil {
		return // the next one tries again
	}
	defer done()
	entries, _ := os.ReadDir(c.path(workDir))
	for _, e := range entries {
		dir := c.path(workDir, e.Name())
		lock, err := os.Open(filepath.Join(dir, usedFile))
		if err == nil && tryLock(lock) != nil {
			lock.Close()
			continue
		}
		lock.Close()          // of a nil file, too
		_ = os.RemoveAll(dir) // the next sweep tries again
	}
}

func (c *Cache) path(names ...string) string {
	return filepath.Join(append([]string{c.dir}, names...)...)
}

// alone keeps others from beginning or sweeping work until done.
func (c *Cache) alone() (done func(), err error) {
	f, err := os.OpenFile(c.path(aloneFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockAlone(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}

// find returns what a key came to, unless that is older than ttl or its layer is gone.
func (c *Cache) find(key string, ttl time.Duration) (a answer, ok bool) {
	text, err := os.ReadFile(c.path(requestsDir, key+".json"))
	if err != nil || json.Unmarshal(text, &a) != nil || ttl > 0 && time.Since(a.Made) > ttl {
		return answer{}, false
	}
	if a.Digest == "" {
		return a, true
	}
	_, err = os.Stat(c.path(layersDir, a.Digest, layerFile))
	return a, err == nil
}

const tempPrefix = "new-" // of a request that is being written

// remember records what a key came to.
func (c *Cache) remember(key string, a answer) error {
	text, err := json.Marshal(a)
	if err != nil {
		return err
	}
	f, err := os.CreateTemp(c.path(requestsDir), tempPrefix)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), c.path(requestsDir, key+".json"))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// hold keeps a layer until release, and counts its use. It is not there: fs.ErrNotExist.
func (c *Cache) hold(digest string) (release func(), err error) {
	used, err := os.OpenFile(c.path(layersDir, digest, usedFile), os.O_WRONLY|os.O_APPEND, 0)
	if err != nil {
		return nil, err
	}
	if err = shareLock(used); err == nil {
		_, err = os.Stat(c.path(layersDir, digest, layerFile)) // it may have gone while we waited
	}
	if err == nil {
		_, err = used.Write([]byte{'\n'})
	}
	if err != nil {
		used.Close()
		return nil, err
	}
	return func() { used.Close() }, nil
}

var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (c *Cache) describe(digest string) (l Layer, err error) {
	text, err := os.ReadFile(c.path(layersDir, digest, layerFile))
	if err == nil {
		err = json.Unmarshal(text, &l)
	}
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(c.path(layersDir, digest, usedFile)); err == nil {
			l.Hits, l.Used = max(info.Size()-1, 0), info.ModTime()
		}
	}
	return l, err
}

// tree is the folder of a layer's files.
func (c *Cache) tree(digest string) string { return c.path(layersDir, digest, treeDir) }

// List returns the layers, the least recently used first.
func (c *Cache) List() ([]Layer, error) {
	entries, err := os.ReadDir(c.path(layersDir))
	if err != nil {
		return nil, err
	}
	var list []Layer
	for _, e := range entries {
		if l, err := c.describe(e.Name()); err == nil && digestPattern.MatchString(e.Name()) {
			list = append(list, l)
		}
	}
	slices.SortFunc(list, func(a, b Layer) int { return a.Used.Compare(b.Used) })
	return list, nil
}

// Prune removes layers, the least recently used first, until the rest has at most that many bytes. It keeps those in use. It returns what it
// removed.
func (c *Cache) Prune(most int64) (removed []Layer, err error) {
	list, err := c.List()
	if err != nil {
		return nil, err
	}
	var total int64
	for _, l := range list {
		total += l.Bytes
	}
	for _, l := range list {
		if total <= most {
			break
		}
		gone, err := c.remove(l.Digest)
		if err != nil {
			return removed, fmt.Errorf("remove the layer %.12s: %w", l.Digest, err)
		}
		if gone {
			total -= l.Bytes
			removed = append(removed, l)
		}
	}
	c.forgetOld()
	return removed, nil
}

// remove removes a layer unless it is in use. It first gets another name, so that nobody finds half of it.
func (c *Cache) remove(digest string) (gone bool, err error) {
	used, err := os.Open(c.path(layersDir, digest, usedFile))
	if errors.Is(err, fs.ErrNotExist) {
		return false, nil
	}
	if err != nil {
		return false, err
	}
	defer used.Close()
	if tryLock(used) != nil {
		return false, nil
	}
	doomed, err := os.MkdirTemp(c.path(workDir), "removed-")
	if err == nil {
		err = os.Rename(c.path(layersDir, digest), filepath.Join(doomed, digest))
	}
	if err != nil {
		return false, err
	}
	return true, os.RemoveAll(doomed)
}

// forgetOld removes keys whose layers are gone, and those that are out of date by far.
func (c *Cache) forgetOld() {
	entries, _ := os.ReadDir(c.path(requestsDir))
	for _, e := range entries {
		if info, err := e.Info(); err == nil && strings.HasPrefix(e.Name(), tempPrefix) && time.Since(info.ModTime()) > time.Hour {
			_ = os.Remove(c.path(requestsDir, e.Name()))
		}
		if key, isKey := strings.CutSuffix(e.Name(), ".json"); isKey {
			if _, ok := c.find(key, keepKeys); !ok {
				_ = os.Remove(c.path(requestsDir, e.Name())) // it only costs another survey
			}
		}
	}
}

// keepKeys is how long the answer to a key is kept.
const keepKeys = 30 * 24 * time.Hour
