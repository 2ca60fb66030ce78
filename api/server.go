package api

import "github.com/fumehood-dev/fumehood/sandbox"

// Capabilities is the answer to GET /v1/capabilities.
type Capabilities struct {
	Version        string                `json:"version"`         // Version of Fumehood.
	DefaultBackend string                `json:"default_backend"` // Backend of a run that names none.
	Backends       []Backend             `json:"backends"`
	Languages      []string              `json:"languages"`
	Defaults       Limits                `json:"defaults"` // Limits of a run that names none.
	Max            Limits                `json:"max"`      // Highest limits that a run may name; null: no maximum.
	Network        []sandbox.NetworkMode `json:"network"`  // Network modes that a request may name.
	// Rules that those of a request must lie within; public: all names and public addresses. Absent: no bound.
	NetworkAllow []string `json:"network_allow,omitzero"`
	// Highest max_connections of a network. Absent: sandboxes have no network.
	NetworkMaxConnections int `json:"network_max_connections,omitzero"`

	// Whether the API key of the request may list and end the sandboxes of other keys.
	Operator bool `json:"operator,omitempty"`

	Slots        int   `json:"slots"` // Concurrent runs.
	Queue        int   `json:"queue"` // Runs that may wait for a slot.
	MaxBodyBytes int64 `json:"max_body_bytes"`
	MaxFileBytes int64 `json:"max_file_bytes"` // Largest file that can be sent to a living sandbox.
}

// Backend is one backend and the state of its isolation layers on this host.
type Backend struct {
	Name   string         `json:"name"`
	Usable bool           `json:"usable"`           // Whether this host can serve a default request on it.
	Error  string         `json:"error,omitempty"`  // Why not.
	Hint   string         `json:"hint,omitempty"`   // The suggested fix.
	Kernel sandbox.Kernel `json:"kernel,omitempty"` // The kernel that serves the code.
	Layers []sandbox.Wall `json:"isolation"`        // Its isolation layers and their states.
	// Its features, and the effect of a request for a missing one.
	Features []sandbox.Feature `json:"features"`
}

// Languages is the answer to GET /v1/languages.
type Languages struct {
	Languages []Language `json:"languages"`
}

// Language is one language.
type Language struct {
	Name       string   `json:"name"` // Its name in requests.
	Title      string   `json:"title"`
	Aliases    []string `json:"aliases"`    // Other names for it.
	Extensions []string `json:"extensions"` // File name extensions.
	FileName   string   `json:"file_name"`  // Default name of the code's file.
	// Version of its interpreter on the default backend; null if unknown.
	Version *string `json:"version"`
	// Whether its standard library is installed; modules does not list that.
	StandardLibrary bool `json:"standard_library"`
	// Modules besides the standard library that code can import; of a shell, the common commands.
	Modules []Module `json:"modules"`
	Error   string   `json:"error,omitempty"` // Why version and modules are unknown.
	Hint    string   `json:"hint,omitempty"`  // The suggested fix.
}

// Module is a module that code can import.
type Module struct {
	Name    string  `json:"name"`    // As in an import statement.
	Version *string `json:"version"` // null if unknown.
}

// Health is the answer to GET /healthz and GET /readyz.
type Health struct {
	Status string `json:"status" enum:"ok,ready"`
}
