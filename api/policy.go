package api

import "github.com/fumehood-dev/fumehood/sandbox"

// Policy is the policy of a sandbox, as requested and as enforced.
type Policy struct {
	Backend   string    `json:"backend"`   // Backend of the run; empty if it ended before there was a sandbox.
	Requested Requested `json:"requested"` // The requested policy, with the server's defaults.
	Effective Effective `json:"effective"` // The enforced policy.
	// Where less was enforced than requested: limits waived by allow_unenforced, and defaults that the request did not
	// name.
	Differences []sandbox.Difference `json:"differences"`
}

// Requested is a requested policy. It omits the environment, which may hold secrets.
type Requested struct {
	Backend string  `json:"backend"`         // A name, or auto; the server's default if the request named none.
	Image   string  `json:"image,omitempty"` // The requested image of the root file system.
	Limits  Limits  `json:"limits"`
	Network Network `json:"network"`
	User    User    `json:"user"` // The requested user in the sandbox.
	// Limits that the request named; each was enforced, or waived by allow_unenforced.
	Named []sandbox.LimitName `json:"named"`
	// Allowed programs; null: every program of the root file system.
	Commands        []string `json:"commands"`
	AllowUnenforced []string `json:"allow_unenforced"`
}

// Effective is an enforced policy.
type Effective struct {
	Kernel sandbox.Kernel `json:"kernel"` // Empty if the run ended before there was a sandbox.
	// The image of the root file system, by name and digest.
	Image     string                       `json:"image,omitempty"`
	Limits    Limits                       `json:"limits"`    // null: not enforced.
	Enforcers map[sandbox.LimitName]string `json:"enforcers"` // The mechanism that enforces each limit.
	Network   Network                      `json:"network"`
	User      User                         `json:"user"` // The user in the sandbox.
	// unique: a separate host user; subordinate; shared: the user who runs Fumehood.
	HostUID  string   `json:"host_uid"`
	Commands []string `json:"commands"` // Allowed programs; null: every program of the root file system.
	// State of each isolation layer. GET /v1/capabilities has details.
	Isolation map[string]sandbox.WallState `json:"isolation"`
	// Limits that the request waived and the host could not enforce.
	Unenforced []string `json:"unenforced"`
	Warnings   []string `json:"warnings"`
}

// User is a user inside a sandbox.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// Limits are the limits of a run or a sandbox. In a request, the default of an absent limit is the server's. In an
// answer, null is a limit that is not enforced.
type Limits struct {
	TimeoutS  *float64 `json:"timeout_s" least:"0" example:"30"`  // Wall time of a run in seconds; 0 is no limit.
	MemoryMiB *float64 `json:"memory_mib" over:"0" example:"512"` // Memory in MiB, with the files in writable places.
	CPUs      *float64 `json:"cpus" over:"0" example:"1"`         // CPUs; fractions are allowed.
	// All writable places together, in MiB. They count as memory too. The default is at most half of the memory.
	DiskMiB *float64 `json:"disk_mib" over:"0" example:"100"`
	Pids    *float64 `json:"pids" over:"0" whole:"true" example:"128"` // Processes and threads.
	// Kept output of stdout and of stderr each.
	OutputKiB *float64 `json:"output_kib" over:"0" example:"1024"`
	// Files and directories in writable places.
	Inodes    *float64 `json:"inodes" over:"0" whole:"true" example:"16384"`
	OpenFiles *float64 `json:"open_files" over:"0" whole:"true" example:"1024"` // Open descriptors of one process.
}
