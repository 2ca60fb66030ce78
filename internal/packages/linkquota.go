package packages

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// What living sandboxes are shown stays on the disk until they are removed, whatever goes from the cache. So it has a bound of its own, as large
// as that of the cache. A file beside each folder says what is in it; all of them are read before something is shown.

// shownRecord is what a folder holds.
type shownRecord struct {
	Owner  string       `json:"owner"`
	Layers []shownLayer `json:"layers"` // one, and until its files are there, the earlier ones
}

// shownLayer is a layer that a folder holds.
type shownLayer struct {
	ID    string `json:"id"`    // of its files: a layer that went and was installed again has others
	Files int64  `json:"files"` // bytes that all who show it share
	Own   int64  `json:"own"`   // bytes that each of them takes besides
}

func recordOf(folder string) string { return folder + ".json" }

// usage is what some folders hold together.
type usage struct {
	bytes int64
	seen  map[string]bool
}

func (u *usage) add(layers ...shownLayer) {
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

// reserve has a folder count as holding a layer too, unless that is too much. What it holds already will go, unless it is mixed. Errors: Quota.
func (p *Packager) reserve(folder, owner string, l shownLayer, mixed bool) error {
	p.showing.Lock()
	defer p.showing.Unlock()
	record := readShown(folder)
	record.Owner = owner
	if slices.Contains(record.Layers, l) { // it counts already
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
		r := readShown(other)
		all.add(r.Layers...)
		if r.Owner == owner {
			own.add(r.Layers...)
		}
	}
	all.add(l)
	own.add(l)
	most, whose := p.config.MaxBytes, "all living sandboxes together"
	if p.config.SeveralOwners && own.bytes > most/2 {
		all, most, whose = own, most/2, "your living sandboxes"
	}
	if all.bytes > most {
		return &sandbox.Error{Kind: sandbox.Quota, Op: "packages", Msg: whose + " would have more than " + sandbox.FormatBytes(most) + " of them",
			Fix: "remove sandboxes that are no longer needed, or serve with a larger --package-cache-size"}
	}
	record.Layers = append(record.Layers, l)
	return writeShown(folder, record)
}

// foldersBeside lists the folders of all sandboxes, but for one. They are ROOT/SANDBOX/FOLDER.
func foldersBeside(folder string) (list []string, err error) {
	root := filepath.Dir(filepath.Dir(folder))
	sandboxes, err := os.ReadDir(root)
	for _, s := range sandboxes {
		entries, _ := os.ReadDir(filepath.Join(root, s.Name())) // one that has gone holds nothing
		for _, e := range entries {
			if path := filepath.Join(root, s.Name(), e.Name()); e.IsDir() && path != folder && !strings.HasSuffix(path, workSuffix) {
				list = append(list, path)
			}
		}
	}
	return list, err
}

// readShown reads what a folder holds. Without a record that can be read, all there is counts as its own.
func readShown(folder string) (r shownRecord) {
	text, err := os.ReadFile(recordOf(folder))
	if err == nil && json.Unmarshal(text, &r) == nil {
		return r
	}
	if l, _, err := measure(folder); err == nil && l.Own > 0 {
		r.Layers = []shownLayer{{ID: folder, Own: l.Own + l.Files}}
	}
	return r
}

func writeShown(folder string, r shownRecord) error {
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

// nameBytes is what a folder takes for an entry besides its name.
const nameBytes = 16

// measure counts what a folder's files and folders take, and finds one of the files.
func measure(dir string) (l shownLayer, file string, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || path == dir {
			return err
		}
		l.Own += nameBytes + int64(len(d.Name()))
		if d.IsDir() {
			l.Own += diskBlock
			return nil
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		l.Files += blocks(info.Size())
		file = path
		return nil
	})
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	return l, file, err
}
