package api

import (
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// File is the content of one file, in a request or an answer. It has exactly one of Content and ContentBase64.
type File struct {
	// Relative to /workspace. U+FFFD replaces bytes that are not UTF-8.
	Path string `json:"path" required:"true" example:"data/in.csv"`
	// Octal. The default is 0644.
	Mode string `json:"mode,omitempty" pattern:"^(0*[0-7]{1,3})?$" form:"0755" example:"0755"`
	// In bytes. A request that gives it is checked against it.
	Size *int64 `json:"size,omitempty"`
	// SHA-256 of the content, in hexadecimal. A request with another value is refused.
	SHA256  string  `json:"sha256,omitempty"`
	Content *string `json:"content,omitempty" nul:"ok" one:"content"` // The content as text.
	// The content as base64: in an answer, if it is not UTF-8 or has NUL characters.
	ContentBase64 []byte `json:"content_base64,omitzero" one:"content"`
}

// FileInfo describes a file in a living sandbox.
type FileInfo struct {
	// Absolute; in a listing, relative to its folder. U+FFFD replaces bytes that are not UTF-8.
	Path       string           `json:"path"`
	Type       sandbox.FileType `json:"type"`
	Mode       string           `json:"mode" example:"0644"` // Permission bits in octal.
	Size       int64            `json:"size"`                // In bytes.
	ModifiedAt time.Time        `json:"modified_at,omitzero"`
	Target     string           `json:"target,omitempty"` // Target of a symbolic link.
	Error      string           `json:"error,omitempty"`  // Why the file could not be examined.
}

// FileList is a listing of a folder.
type FileList struct {
	Files []FileInfo `json:"files"`
	More  bool       `json:"more"` // Whether there are more.
}

// Unpacked is the answer to an archive that was sent.
type Unpacked struct {
	Files int   `json:"files"` // Files, folders and links.
	Bytes int64 `json:"bytes"` // Of the content of files.
}

// MoveRequest is the body of POST /v1/sandboxes/{id}/move.
type MoveRequest struct {
	From    string `json:"from" required:"true" example:"a.txt"` // Absolute, or relative to /workspace.
	To      string `json:"to" required:"true" example:"b.txt"`   // The new path.
	Replace bool   `json:"replace,omitempty"`                    // Replace an existing file.
}

// FolderRequest is the body of POST /v1/sandboxes/{id}/mkdir.
type FolderRequest struct {
	// Absolute, or relative to /workspace. Missing parents are created.
	Path string `json:"path" required:"true" example:"data"`
}

// CleanRequest is the body of POST /v1/sandboxes/{id}/clean.
type CleanRequest struct {
	Force bool `json:"force,omitempty"` // Required if the workspace is a directory of the host.
}
