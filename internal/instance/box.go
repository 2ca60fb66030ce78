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

// Box is the record that lets another process reattach a living box. It lies in the box's folder. It holds the guest's key,
// so only its owner may read it.
type Box struct {
	Key        []byte         `json:"key"`
	Spec       *sandbox.Spec  `json:"spec,omitempty"` // if the backend needs it
	Effective  sandbox.Policy `json:"effective"`
	CgroupDirs []string       `json:"cgroup_dirs"`
	Began      time.Time      `json:"began"`
}

// BoxFile is the record's file name.
const BoxFile = "box.json"

// Write writes the record into the box's folder, whole or not at all.
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

// ReadBox reads the record from a box's folder. It is trusted only if its control groups are those of some instance; for a
// reattached box, nothing else says which. fs.ErrNotExist means no record.
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
		return Box{}, &sandbox.Error{Op: "read " + file, Err: err, Fix: "find out who wrote it, then run: rm -r " + dir}
	}
	return b, nil
}
