package engine

import (
	"context"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// VolumeConfig configures volumes.
type VolumeConfig struct {
	Store VolumeStore // of named volumes; nil is none
	// Dir refuses a directory of the host that requests may not mount; nil refuses all. The path is absolute and clean.
	Dir func(dir string, readOnly bool) error
}

// VolumeStore keeps named volumes.
type VolumeStore interface {
	// Create makes a volume. Errors: Invalid; Exists, the owner has one of this name; Quota; Unsupported, the host
	// cannot bound it and the request does not waive that.
	Create(ctx context.Context, r sandbox.VolumeRequest) (sandbox.NamedVolume, error)
	// Find returns a volume of an owner. Error: NotFound.
	Find(owner, name string) (sandbox.NamedVolume, error)
	// List returns the volumes of an owner, by name. For each it calls report, if that is not nil, with the number of
	// users: finding out which of them live takes CPU time.
	List(owner string, report func(users int)) ([]sandbox.NamedVolume, error)
	// Remove removes a volume with its files. Errors: NotFound; Exists, a sandbox uses it.
	Remove(ctx context.Context, owner, name string) error
	// Hold makes a sandbox, whose box is made next, a user of a volume until its box is gone. Errors: NotFound; Exists,
	// another sandbox writes to it.
	Hold(ctx context.Context, owner string, id sandbox.ID, v sandbox.Volume) (sandbox.HeldVolume, error)
}

// Volumes returns the store of named volumes. Error: Unsupported, the server keeps no volumes.
func (e *Engine) Volumes() (VolumeStore, error) {
	if e.config.Volumes.Store == nil {
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "volumes", Msg: "this server keeps no volumes"}
	}
	return e.config.Volumes.Store, nil
}

// mountVolumes adds the mounts of the named volumes to the spec of a box that is made next. The caller calls release
// after that.
func (s *Sandbox) mountVolumes(ctx context.Context, spec *sandbox.Spec) (release func(), err error) {
	if len(spec.Volumes) > 0 && !sandbox.HasFeature(s.backend, sandbox.FeatureVolumes) {
		return nil, &sandbox.Error{Kind: sandbox.Unsupported, Op: "volumes",
			Msg: "the " + s.backend.Name() + " backend mounts no volumes"}
	}
	var held []sandbox.HeldVolume
	release = func() {
		for _, h := range held {
			h.Release()
		}
	}
	list := spec.NamedVolumes()
	if len(list) == 0 {
		return release, nil
	}
	store, err := s.engine.Volumes()
	if err != nil {
		return nil, err
	}
	mounts := append([]sandbox.Mount{}, spec.Mounts...)
	for _, v := range list {
		h, err := store.Hold(ctx, s.record.Owner, spec.ID, v)
		if err != nil {
			release()
			return nil, err
		}
		held = append(held, h)
		h.Mount.Target = v.Path
		mounts = append(mounts, h.Mount)
	}
	spec.Mounts = mounts
	return release, nil
}
