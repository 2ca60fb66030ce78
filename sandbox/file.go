package sandbox

import "time"

// FileInfo describes a file in a living sandbox. It comes from the sandbox, so it may lie.
type FileInfo struct {
	Path     string // absolute, or relative to the folder that was listed
	Type     FileType
	Mode     uint32 // permission bits
	UID, GID uint32 // owner and group, inside the sandbox
	Size     int64  // of a regular file; one described alone: also of a folder, as its file system reports it
	Modified time.Time
	Target   string // of a symbolic link
	Err      string // why it could not be examined; other fields may be unset
}

// FileType is the type of a file.
type FileType string

// The types of files.
const (
	TypeFile    FileType = "file"
	TypeFolder  FileType = "folder"
	TypeSymlink FileType = "symlink"
	TypeDevice  FileType = "device"
	TypePipe    FileType = "pipe"
	TypeSocket  FileType = "socket"
)
