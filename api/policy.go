package api

import (
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Policy is the policy of a sandbox, as requested and as enforced.
type Policy struct {
	Backend     string               `json:"backend" doc:"Backend of the run; empty if it ended before there was a sandbox."`
	Requested   Requested            `json:"requested" doc:"The requested policy, with the server's defaults."`
	Effective   Effective            `json:"effective" doc:"The enforced policy."`
	Differences []sandbox.Difference `json:"differences" doc:"Where less was enforced than requested: limits waived by allow_unenforced, and defaults that the request did not name."`
}

// PolicyLimits are the limits of a policy. Every field is present; null is not enforced.
type PolicyLimits struct{ Limits }

// Requested is a requested policy. It omits the environment, which may hold secrets.
type Requested struct {
	Backend         string              `json:"backend" doc:"A name, or auto; the server's default if the request named none."`
	Image           string              `json:"image,omitempty" doc:"The requested image of the root file system; absent if the request named none."`
	Limits          PolicyLimits        `json:"limits"`
	Named           []sandbox.LimitName `json:"named" doc:"Limits that the request named; each was enforced, or waived by allow_unenforced."`
	Network         Network             `json:"network"`
	User            User                `json:"user" doc:"The requested user in the sandbox."`
	Commands        []string            `json:"commands" doc:"Programs that may be executed; null is every program of the root file system."`
	AllowUnenforced []string            `json:"allow_unenforced"`
}

// Effective is an enforced policy.
type Effective struct {
	Kernel     sandbox.Kernel               `json:"kernel" doc:"The kernel that served the code; empty if the run ended before there was a sandbox." enum:"shared,user-space,machine,"`
	Image      string                       `json:"image,omitempty" doc:"The image of the root file system, by name and digest."`
	Limits     PolicyLimits                 `json:"limits" doc:"null: not enforced."`
	Enforcers  map[sandbox.LimitName]string `json:"enforcers" doc:"What enforces each limit."`
	Network    Network                      `json:"network"`
	User       User                         `json:"user" doc:"The user in the sandbox."`
	HostUID    string                       `json:"host_uid" doc:"unique: a host user of its own; subordinate; shared: the user who runs Fumehood."`
	Commands   []string                     `json:"commands" doc:"Programs that may be executed; null is every program of the root file system."`
	Isolation  map[string]sandbox.WallState `json:"isolation" doc:"State of each isolation layer: enforced, partial or missing. GET /v1/capabilities says more."`
	Unenforced []string                     `json:"unenforced" doc:"What the request waived and the host could not enforce."`
	Warnings   []string                     `json:"warnings"`
}

// User is a user inside a sandbox.
type User struct {
	UID uint32 `json:"uid"`
	GID uint32 `json:"gid"`
}

// Limits are the limits of one run, in the units of the API. In a request, an absent limit is the server's default.
type Limits struct {
	TimeoutS  *float64 `json:"timeout_s" doc:"Wall time in seconds." over:"0" example:"30"`
	MemoryMiB *float64 `json:"memory_mib" doc:"Memory in MiB, with the files in the sandbox's own places." over:"0" example:"512"`
	CPUs      *float64 `json:"cpus" doc:"CPUs; fractions are allowed." over:"0" example:"1"`
	DiskMiB   *float64 `json:"disk_mib" doc:"Bytes of all writable places together, in MiB. They count as memory too. If absent, at most half of the memory." over:"0" example:"100"`
	Pids      *float64 `json:"pids" doc:"Processes and threads." over:"0" whole:"true" example:"128"`
	OutputKiB *float64 `json:"output_kib" doc:"Kept output in KiB, for stdout and for stderr each." over:"0" example:"1024"`
	Inodes    *float64 `json:"inodes" doc:"Files and directories in the writable places." over:"0" whole:"true" example:"16384"`
	OpenFiles *float64 `json:"open_files" doc:"Open descriptors of one process." over:"0" whole:"true" example:"1024"`
}
