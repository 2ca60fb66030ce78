package api

import (
	"time"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// ImageList is the answer to GET /v1/images.
type ImageList struct {
	Images []StoredImage `json:"images"` // By name.
}

// StoredImage is an image or a template that the server keeps.
type StoredImage struct {
	Name     string `json:"name"`               // Requests may name it so.
	Digest   string `json:"digest"`             // Of its manifest, or of its configuration.
	Bytes    int64  `json:"bytes"`              // Of all its files. Images with common layers share them.
	Template bool   `json:"template,omitempty"` // Whether Fumehood has built it.
	// The API key that built the template. Only for an operator, and only on servers with keys.
	Owner     string       `json:"owner,omitempty"`
	AddedAt   time.Time    `json:"added_at"`
	UsedAt    time.Time    `json:"used_at"`   // When a sandbox last began to use it.
	Sandboxes []sandbox.ID `json:"sandboxes"` // Those that use it.
}

// PackageList is the answer to GET /v1/packages.
type PackageList struct {
	Layers []PackageLayer `json:"layers"` // The most recently used first.
}

// PackageLayer is a set of packages that were installed together. Runs and sandboxes share it.
type PackageLayer struct {
	Digest    string         `json:"digest"`   // Of its files.
	Language  string         `json:"language"` // Whose packages they are.
	Requested []string       `json:"requested"`
	Packages  []NamedPackage `json:"packages"`
	Bytes     int64          `json:"bytes"`
	Files     int            `json:"files"`
	Hits      int64          `json:"hits"` // How often it was used again.
	MadeAt    time.Time      `json:"made_at"`
	UsedAt    time.Time      `json:"used_at"`
	Sandboxes []sandbox.ID   `json:"sandboxes"` // Living ones that have all its packages.
}

// NamedPackage is a package and its version.
type NamedPackage struct {
	Name    string `json:"name"`
	Version string `json:"version"`
}
