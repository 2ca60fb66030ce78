package image

import (
	"encoding/json"
	"io/fs"
	"maps"
	"os"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/trees"
)

// heads caches the first lines of the records of names: each build and each new image reads those of all names. The
// zero value is empty.
type heads struct {
	mu    sync.Mutex
	known map[string]knownHead // by file
}

type knownHead struct {
	file fs.FileInfo
	head Image
}

// of returns the head of a record, without the time of the last use.
func (h *heads) of(file string) (Image, error) {
	info, err := os.Stat(file)
	if err != nil {
		return Image{}, err
	}
	h.mu.Lock()
	known, ok := h.known[file]
	h.mu.Unlock()
	// A changed record is another file.
	if ok && os.SameFile(known.file, info) && known.file.ModTime().Equal(info.ModTime()) &&
		known.file.Size() == info.Size() {
		return known.head, nil
	}
	f, err := os.Open(file)
	if err != nil {
		return Image{}, err
	}
	defer f.Close()
	if info, err = f.Stat(); err != nil {
		return Image{}, err
	}
	var i Image
	if json.NewDecoder(f).Decode(&i) != nil {
		return Image{}, damaged(file)
	}
	i.Config, i.recordBytes = Config{}, trees.SizeOnDisk(info.Size())
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.known == nil {
		h.known = map[string]knownHead{}
	}
	h.known[file] = knownHead{info, i}
	return i, nil
}

// retain forgets the heads of all other files.
func (h *heads) retain(files []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if len(h.known) <= len(files) {
		return
	}
	retained := make(map[string]bool, len(files))
	for _, file := range files {
		retained[file] = true
	}
	maps.DeleteFunc(h.known, func(file string, _ knownHead) bool { return !retained[file] })
}

func (h *heads) count() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.known)
}
