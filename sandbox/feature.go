package sandbox

// Feature is something that some backends support and others do not. Each backend's own list is the only source for
// /v1/capabilities and doctor. The shared test suite checks that a backend refuses or reports every feature that it
// lacks.
type Feature struct {
	Name   FeatureName `json:"name"`
	Has    bool        `json:"has"`
	Detail string      `json:"detail,omitempty"` // what happens instead, where it is missing
}

// FeatureName names a feature.
type FeatureName string

// The features.
const (
	FeatureHostRoot     FeatureName = "host root" // the host's own system directories as the root
	FeatureRootDir      FeatureName = "root directory"
	FeatureImage        FeatureName = "image"
	FeatureHostDirs     FeatureName = "host directories" // as the workspace, and mounted
	FeatureVolumes      FeatureName = "volumes"          // named, if the host can bound them; in memory
	FeatureCommands     FeatureName = "allowed commands"
	FeatureInodes       FeatureName = "limit inodes"
	FeatureCheckpoint   FeatureName = "checkpoint"
	FeatureForkedPython FeatureName = "warm python"
	FeatureBuild        FeatureName = "writable root" // for the steps of a template
	FeatureNetwork      FeatureName = "network"       // restricted and full, where the host has what it takes
)

// Featured is a Backend that reports its features.
type Featured interface {
	Features() []Feature
}

// HasFeature reports whether a backend has a feature. A backend that is not Featured has them all.
func HasFeature(b Backend, name FeatureName) bool {
	f, ok := b.(Featured)
	if !ok {
		return true
	}
	for _, feature := range f.Features() {
		if feature.Name == name {
			return feature.Has
		}
	}
	return false
}
