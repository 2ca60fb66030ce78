package api

import (
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// VolumeMount mounts storage in a new sandbox besides its own. Give exactly one of name, host_dir and size_mib.
type VolumeMount struct {
	// A named volume of the caller, which outlives the sandbox. One sandbox at a time may write to it.
	Name string `json:"name,omitempty" one:"storage" example:"data"`
	// A directory of the server's host, if the operator allows it. Nothing limits what is written to it. With path
	// /workspace it is the workspace.
	HostDir string `json:"host_dir,omitempty" one:"storage"`
	// Size in MiB of an empty file system in memory. It counts against the memory limit.
	SizeMiB float64 `json:"size_mib,omitempty" over:"0" one:"storage"`
	// Absolute path in the sandbox, outside of its own folders and of other volumes.
	Path     string `json:"path" required:"true" example:"/data"`
	ReadOnly bool   `json:"read_only,omitempty"` // Mount it read-only. Any number of sandboxes may read a volume.
}

// VolumeRequest is the body of POST /v1/volumes.
type VolumeRequest struct {
	// Unique among the caller's volumes. 1 to 63 of a-z, 0-9 and ._- with a letter or digit at both ends.
	Name    string  `json:"name" required:"true" example:"data"`
	SizeMiB float64 `json:"size_mib,omitempty" least:"0" example:"2048"` // Largest size in MiB. 0 is the default, 1024.
	// Most files. 0 is the default, one for each 16 KiB.
	Inodes int64 `json:"inodes,omitempty" least:"0"`
	// disk and inodes: create the volume without these limits if this host cannot enforce them.
	AllowUnenforced []string `json:"allow_unenforced,omitempty" max:"64"`
}

// Volume is a named volume.
type Volume struct {
	Name      string       `json:"name"`
	SizeMiB   float64      `json:"size_mib"` // Largest size, with the file system's own structures.
	Inodes    int64        `json:"inodes"`
	UsedBytes *int64       `json:"used_bytes"`         // On the host's disk. null: unknown.
	Enforcer  string       `json:"enforcer,omitempty"` // What enforces the size; absent: nothing.
	CreatedAt time.Time    `json:"created_at"`
	Sandboxes []VolumeUser `json:"sandboxes"` // Those that use it.
}

// VolumeUser is a sandbox that uses a volume.
type VolumeUser struct {
	ID       sandbox.ID `json:"id"`
	ReadOnly bool       `json:"read_only"`
}

// VolumeList is the answer to GET /v1/volumes.
type VolumeList struct {
	Volumes []Volume `json:"volumes"` // By name.
}
