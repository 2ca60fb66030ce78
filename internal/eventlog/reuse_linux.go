package eventlog

import (
	"os"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
)

// keepSpare keeps the file of a removed log for the next log of the folder, if it is small and the only one. To make
// and remove a file costs several times as much as to rename it. OpenFolder of the next server removes it only if it is
// beyond the folder's retention, so one that the quota removed is not kept.
func (f *Folder) keepSpare(d doomed) bool {
	f.quota.mu.Lock()
	defer f.quota.mu.Unlock()
	overQuota := f.quota.most > 0 && f.quota.bytes+d.Bytes > f.quota.most
	if d.folder != f || f.spare.ID != "" || d.Bytes > freeBytes || overQuota {
		return false
	}
	f.spare = d.Entry
	return true
}

// reuse gives the file that the folder keeps to a new log, and returns its size. The file has the old content, whose
// sums are wrong under the new name, until the log writes its header. It returns nil if there is no such file.
func (f *Folder) reuse(path string) (*os.File, int64) {
	if f == nil {
		return nil, 0
	}
	f.quota.mu.Lock()
	spare := f.spare
	f.spare = Entry{}
	f.quota.mu.Unlock()
	if spare.ID == "" {
		return nil, 0
	}
	old := f.File(spare.ID)
	file, err := nolink.Open(old, os.O_WRONLY, 0)
	if err != nil {
		return nil, 0
	}
	if unix.Renameat2(unix.AT_FDCWD, old, unix.AT_FDCWD, path, unix.RENAME_NOREPLACE) != nil {
		file.Close()
		_ = os.Remove(old) // it may have the name itself
		return nil, 0
	}
	return file, spare.Bytes
}
