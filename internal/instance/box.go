package instance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/glovebox-dev/glovebox/internal/cgroup"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Box is what a living box needs to be taken back by another process, written down in its folder. It holds the guest's key, so it is for
// its owner only.
type Box struct {
	Key        []byte         `json:"key"`
	Spec       *sandbox.Spec  `json:"spec,omitempty"` // where the backend wants it
	Effective  sandbox.Policy `json:"effective"`
	CgroupDirs []string       `json:"cgroup_dirs"`
	Began      time.Time      `json:"began"`
}

// BoxFile is its name.
const BoxFile = "box.json"

// Write writes the record into the folder of its box, whole or not at all.
func (b Box) Write(dir string) error {
	text, err := json.Marshal(b)
	if err != nil {
		return err
	}
	temporary := filepath.Join(dir, BoxFile+".new")
	if err := os.WriteFile(temporary, text, 0o600); err != nil {
		return err
	}
	return os.Rename(temporary, filepath.Join(dir, BoxFile))
}

// ReadBox reads the record of a box from its folder. It is believed only where its control groups are those of an instance: which one, if
// the box was taken back, nothing else tells. fs.ErrNotExist is one that has no record.
func ReadBox(dir string) (b Box, err error) {
	file := filepath.Join(dir, BoxFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return b, err
	}
	if err = json.Unmarshal(text, &b); err == nil {
		b.CgroupDirs, err = cgroup.Recorded(b.CgroupDirs, func(tree string) bool { return strings.HasPrefix(tree, treePrefix) })
	}
	if err != nil {
		return Box{}, &sandbox.Error{Op: "read " + file, Err: err, Fix: "see what wrote it, and remove " + dir}
	}
	return b, nil
}
