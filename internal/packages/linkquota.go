package packages

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/trees"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Packages of living sandboxes stay on the disk until the sandboxes are removed, even if the cache is pruned. So they
// have a separate limit, which equals that of the cache. A file beside each folder records its layers. All records
// are read before a layer is added.

// linkRecord records the layers of a folder.
type linkRecord struct {
	Owner  string        `json:"owner"`
	Layers []linkedLayer `json:"layers"` // of all its files; while a layer replaces others, also those
}

// linkedLayer is a layer in a folder.
type linkedLayer struct {
	ID    string `json:"id"`    // of its files; a layer that was removed and installed again has another one
	Files int64  `json:"files"` // bytes that all folders with this layer share
	Own   int64  `json:"own"`   // further bytes of each folder
}

func recordOf(folder string) string { return folder + ".json" }

// usage sums the disk space of folders.
type usage struct {
	bytes int64
	seen  map[string]bool
}

func (u *usage) add(layers ...linkedLayer) {
	for _, l := range layers {
		u.bytes += l.Own
		if !u.seen[l.ID] {
			u.bytes += l.Files
		}
		if u.seen == nil {
			u.seen = map[string]bool{}
		}
		u.seen[l.ID] = true
	}
}

// reserve records that a folder will contain a layer, if the limit allows it. The earlier layers count only if the
// folder is mixed. Errors: Quota.
func (p *Packager) reserve(folder, owner string, l linkedLayer, mixed bool) error {
	p.reserving.Lock()
	defer p.reserving.Unlock()
	record := readRecord(folder)
	record.Owner = owner
	if slices.Contains(record.Layers, l) { // it is counted already
		return nil
	}
	var all, own usage
	if mixed {
		all.add(record.Layers...)
		own.add(record.Layers...)
	}
	others, err := foldersBeside(folder)
	if err != nil {
		return err
	}
	for _, other := range others {
		r := readRecord(other)
		all.add(r.Layers...)
		if r.Owner == owner {
			own.add(r.Layers...)
		}
	}
	all.add(l)
	own.add(l)
	most, whose := p.config.MaxBytes, "all living sandboxes together"
	if p.config.SeveralOwners != nil && p.config.SeveralOwners() && own.bytes > most/2 {
		all, most, whose = own, most/2, "your living sandboxes"
	}
	if all.bytes > most {
		return &sandbox.Error{Kind: sandbox.Quota, Op: "packages",
			Msg:   whose + " would have more than " + sandbox.FormatBytes(most) + " of packages",
			Fix:   "remove sandboxes that are no longer needed",
			Fixes: setParam("package_cache_size", "SIZE", "enlarge the cache")}
	}
	record.Layers = append(record.Layers, l)
	return writeRecord(folder, record)
}

// foldersBeside lists the folders of all sandboxes except one. Their paths are ROOT/SANDBOX/FOLDER.
func foldersBeside(folder string) (list []string, err error) {
	root := filepath.Dir(filepath.Dir(folder))
	sandboxes, err := os.ReadDir(root)
	for _, s := range sandboxes {
		entries, _ := os.ReadDir(filepath.Join(root, s.Name())) // a removed sandbox has none
		for _, e := range entries {
			path := filepath.Join(root, s.Name(), e.Name())
			if e.IsDir() && path != folder && !strings.HasSuffix(path, workSuffix) {
				list = append(list, path)
			}
		}
	}
	return list, err
}

// readRecord reads the record of a folder. Without a readable record, all files count as the folder's own.
func readRecord(folder string) (r linkRecord) {
	text, err := os.ReadFile(recordOf(folder))
	if err == nil && json.Unmarshal(text, &r) == nil {
		return r
	}
	if l, _, err := measure(folder); err == nil && l.Own > 0 {
		r.Layers = []linkedLayer{{ID: folder, Own: l.Own + l.Files}}
	}
	return r
}

func writeRecord(folder string, r linkRecord) error {
	text, err := json.Marshal(r)
	if err != nil {
		return err
	}
	temp := filepath.Join(workOf(folder), "record")
	if err = os.WriteFile(temp, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temp, recordOf(folder))
}

const nameBytes = 16 // that a folder stores for an entry, besides its name

// measure sums the disk space of a folder, and finds one of its files.
func measure(dir string) (l linkedLayer, file string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		l.Own += nameBytes + int64(len(d.Name()))
		if d.IsDir() {
			l.Own += trees.BlockBytes
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		l.Files += trees.SizeOnDisk(info.Size())
		file = path
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return l, file, err
}
