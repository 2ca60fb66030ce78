package volume

import (
	"errors"
	"io/fs"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// Of a disk, volumes leave a sixteenth to the records and logs of a server, at most mostLeft: a client that fills its
// volumes must not refuse all others.
const (
	leftShare = 16
	mostLeft  = 1 << 30
)

// checkPromised refuses a volume that its disk has no space for once all others are full.
func (s *Store) checkPromised(rec *record, all []record) error {
	promised := int64(0)
	for _, other := range all {
		if !other.Disk {
			continue
		}
		used, err := allocated(s.path(folder(other.Owner, other.Name), diskFile))
		if err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		promised += max(other.Bytes-used, 0)
	}
	return checkSpace(s.options.Dir, rec.Bytes, promised)
}

// checkSpace refuses a size that is more than the disk of a folder has, less what other volumes may take and leave.
// Later the disk may fill in other ways.
func checkSpace(dir string, bytes, promised int64) error {
	free, size, err := freeSpace(dir)
	if err != nil {
		return err
	}
	if free -= promised + min(size/leftShare, mostLeft); bytes > free {
		return sandbox.Invalidf("size", "%s is more than volumes may still take of the disk, %s",
			sandbox.FormatBytes(bytes), sandbox.FormatBytes(max(free, 0)))
	}
	return nil
}
