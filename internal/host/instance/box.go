package instance

import (
	"encoding/json"
	"os"
	"path/filepath"
	"time"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Box is the record from which another process reattaches a living box. It is in the box's folder, and contains the
// guest's key, so only its owner may read it.
type Box struct {
	Key       []byte           `json:"key"`
	Lifetime  sandbox.Lifetime `json:"lifetime"`       // a box is living if its record says so
	Spec      *sandbox.Spec    `json:"spec,omitempty"` // if the backend needs it
	Effective sandbox.Policy   `json:"effective"`
	Began     time.Time        `json:"began"`
	Before    cgroup.Counts    `json:"before"` // of its control group
}

// NotLiving explains why an existing box cannot be reattached.
const NotLiving = "it is not a living sandbox, or its creation was never completed"

// Over explains why a living box without a running guest cannot be reattached.
func (b Box) Over() string {
	return "it has ended: no server renewed its lease of " + b.Lifetime.GuestLease().String() +
		", or it was ended from elsewhere"
}

const BoxFile = "box.json"

// Write writes the record into the box's folder atomically.
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

// ReadBox reads the record from a box's folder. fs.ErrNotExist means no record: the box is not living, or not complete.
func ReadBox(dir string) (b Box, err error) {
	file := filepath.Join(dir, BoxFile)
	text, err := os.ReadFile(file)
	if err != nil {
		return b, err
	}
	if err = json.Unmarshal(text, &b); err != nil {
		return Box{}, &sandbox.Error{Op: "read " + file, Err: err,
			Fix: "find out which program wrote it, then run: rm -r " + dir}
	}
	return b, nil
}
