package answer

import (
	"math"

	"github.com/fumehood-dev/fumehood/api"
	"github.com/fumehood-dev/fumehood/sandbox"
)

const mib = 1 << 20

// NewVolume converts a named volume.
func NewVolume(v sandbox.NamedVolume) api.Volume {
	out := api.Volume{Name: v.Name, SizeMiB: float64(v.Bytes) / mib, Inodes: v.Inodes, Enforcer: v.Enforcer,
		CreatedAt: v.Created.UTC(), Sandboxes: []api.VolumeUser{}}
	if v.UsedBytes >= 0 {
		out.UsedBytes = &v.UsedBytes
	}
	for _, u := range v.Users {
		out.Sandboxes = append(out.Sandboxes, api.VolumeUser{ID: u.Sandbox, ReadOnly: u.ReadOnly})
	}
	return out
}

// NewVolumes converts a list of named volumes.
func NewVolumes(list []sandbox.NamedVolume) api.VolumeList {
	out := api.VolumeList{Volumes: []api.Volume{}}
	for _, v := range list {
		out.Volumes = append(out.Volumes, NewVolume(v))
	}
	return out
}

// NewVolumeMounts converts the volumes of a spec into a request.
func NewVolumeMounts(list []sandbox.Volume) []api.VolumeMount {
	var out []api.VolumeMount
	for _, v := range list {
		out = append(out, api.VolumeMount{Name: v.Name, HostDir: v.HostDir, SizeMiB: float64(v.Bytes) / mib,
			Path: v.Path, ReadOnly: v.ReadOnly})
	}
	return out
}

// VolumesOf converts the volumes of a request.
func VolumesOf(list []api.VolumeMount) []sandbox.Volume {
	var out []sandbox.Volume
	for _, v := range list {
		out = append(out, sandbox.Volume{Name: v.Name, HostDir: v.HostDir, Bytes: bytesOf(v.SizeMiB), Path: v.Path,
			ReadOnly: v.ReadOnly})
	}
	return out
}

// VolumeRequestOf converts a request for a named volume.
func VolumeRequestOf(r *api.VolumeRequest) sandbox.VolumeRequest {
	return sandbox.VolumeRequest{Name: r.Name, Bytes: bytesOf(r.SizeMiB), Inodes: r.Inodes,
		AllowUnenforced: r.AllowUnenforced}
}

// bytesOf converts MiB, rounded up, and cuts what no host has.
func bytesOf(m float64) int64 { return int64(math.Ceil(min(m, math.MaxInt32) * mib)) }
