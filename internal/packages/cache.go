package packages

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/rundir"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Folders and files of a cache.
const (
	layersDir    = "layers"
	requestsDir  = "requests"
	workDir      = "work"
	treeDir      = "tree"
	layerFile    = "layer.json"
	usedFile     = "used"
	workLockFile = "work.lock"
)

// Cache keeps layers in a folder, which any number of processes share. Its methods are safe for concurrent use.
type Cache struct {
	dir string // without symbolic links
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
	c := &Cache{}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = rundir.Judge(dir, "") // also the symbolic links in the path
	}
	if err == nil {
		c.dir, err = filepath.EvalSymlinks(dir)
	}
	for _, name := range []string{layersDir, requestsDir, workDir} {
		if err == nil {
			err = os.MkdirAll(filepath.Join(c.dir, name), 0o755)
		}
	}
	if err != nil {
		return nil, &sandbox.Error{Kind: sandbox.Unavailable, Op: "open the package cache", Err: err,
			Fix: "make the folder writable", Fixes: setParam("package_cache", "DIR", "name another one")}
	}
	c.sweep()
	return c, nil
}

// sweep removes unfinished work that no process has locked.
func (c *Cache) sweep() {
	done, err := c.lockWork()
	if err != nil {
		return // the next process tries again
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
		lock.Close()          // also if nil
		_ = os.RemoveAll(dir) // the next sweep tries again
	}
}

func (c *Cache) path(names ...string) string {
	return filepath.Join(append([]string{c.dir}, names...)...)
}

// lockWork locks the work folder: no other process begins or sweeps work until done.
func (c *Cache) lockWork() (done func(), err error) {
	f, err := os.OpenFile(c.path(workLockFile), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return nil, err
	}
	if err := lockExclusive(f); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return func() { f.Close() }, nil
}

// find returns the answer to a key, unless it is older than ttl or its layer was removed.
func (c *Cache) find(key string, ttl time.Duration) (a answer, ok bool) {
	if !c.recall(key, &a) || ttl > 0 && time.Since(a.Made) > ttl {
		return answer{}, false
	}
	if a.Digest == "" {
		return a, true
	}
	_, err := os.Stat(c.path(layersDir, a.Digest, layerFile))
	return a, err == nil
}

// recall reads the record of a key.
func (c *Cache) recall(key string, into any) bool {
	text, err := os.ReadFile(c.path(requestsDir, key+".json"))
	return err == nil && json.Unmarshal(text, into) == nil
}

const tempPrefix = "new-" // of a record that is being written

// remember writes the record of a key.
func (c *Cache) remember(key string, a any) error {
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
	if rand.IntN(forgetEvery) == 0 {
		c.forgetOld()
	}
	return err
}

const forgetEvery = 100 // records, on average

// hold keeps a layer until release, and counts a use. Without the layer it returns fs.ErrNotExist.
func (c *Cache) hold(digest string) (release func(), err error) { return c.keep(digest, []byte{'\n'}) }

// keep keeps a layer until release, and appends to its uses.
func (c *Cache) keep(digest string, uses []byte) (release func(), err error) {
	path := c.path(layersDir, digest, usedFile)
	used, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND, 0)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		used, err = os.Open(path) // a read-only cache still works
	}
	if err != nil {
		return nil, err
	}
	if err = lockShared(used); err == nil && !isAt(used, path) { // it was removed while we waited
		err = fs.ErrNotExist
	}
	if err != nil {
		used.Close()
		return nil, err
	}
	_, _ = used.Write(uses) // on a full disk, a use is not counted
	return func() { used.Close() }, nil
}

// isAt reports whether a path still names an open file.
func isAt(f *os.File, path string) bool {
	own, err := f.Stat()
	there, statErr := os.Stat(path)
	return err == nil && statErr == nil && os.SameFile(own, there)
}

var digestPattern = regexp.MustCompile(`^[0-9a-f]{64}$`)

func (c *Cache) describe(digest string) (l Layer, err error) {
	text, err := os.ReadFile(c.path(layersDir, digest, layerFile))
	if err == nil {
		old := struct{ Asked *[]string }{&l.Requested} // the name of the field with keyVersion "1"
		err = errors.Join(json.Unmarshal(text, &old), json.Unmarshal(text, &l))
	}
	if err == nil {
		var info fs.FileInfo
		if info, err = os.Stat(c.path(layersDir, digest, usedFile)); err == nil {
			l.Hits, l.Used = max(info.Size()-1, 0), info.ModTime()
		}
	}
	return l, err
}

// tree returns the folder of a layer's files.
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

// Prune removes unused layers, the least recently used first, until the rest has at most that many bytes. It returns
// the removed layers.
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

// remove removes a layer unless it is in use. It renames the layer first, so that no process finds half of it.
func (c *Cache) remove(digest string) (gone bool, err error) {
	used, err := os.Open(c.path(layersDir, digest, usedFile))
	if err == nil {
		defer used.Close()
		if tryLock(used) != nil {
			return false, nil
		}
	} else if !errors.Is(err, fs.ErrNotExist) {
		return false, err
	}
	doomed := c.path(workDir, fmt.Sprintf("removed-%s-%x", digest, rand.Uint64()))
	if err := os.Rename(c.path(layersDir, digest), doomed); errors.Is(err, fs.ErrNotExist) {
		return false, nil
	} else if err != nil {
		return false, err
	}
	return true, os.RemoveAll(doomed)
}

// forgetOld removes the oldest records beyond the limits, and leftovers of crashes. A lost record only costs another
// survey.
func (c *Cache) forgetOld() {
	entries, _ := os.ReadDir(c.path(requestsDir))
	var answers []fs.FileInfo
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			continue // it was removed
		}
		if strings.HasSuffix(e.Name(), ".json") {
			answers = append(answers, info)
		} else if time.Since(info.ModTime()) > keepOthers {
			_ = os.Remove(c.path(requestsDir, e.Name()))
		}
	}
	slices.SortFunc(answers, func(a, b fs.FileInfo) int { return b.ModTime().Compare(a.ModTime()) })
	var bytes int64
	for i, info := range answers {
		if bytes += info.Size(); i >= maxKeys || bytes > maxKeyBytes || time.Since(info.ModTime()) > keepKeys {
			_ = os.Remove(c.path(requestsDir, info.Name()))
		}
	}
}

// Limits of the records.
const (
	maxKeys     = 20_000
	maxKeyBytes = 256 << 20
	keepKeys    = 30 * 24 * time.Hour
	keepOthers  = time.Hour // unfinished records, and locks; no installation takes as long
)
