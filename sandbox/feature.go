package sandbox

// Feature is something that one backend can do and another cannot. What a backend says of its features is the one source of the matrix
// that /v1/capabilities and doctor print, and the suite of all backends holds it to its word: a feature that it lacks must be refused, or
// be told where it shows.
type Feature struct {
	Name   FeatureName `json:"name"`
	Has    bool        `json:"has"`
	Detail string      `json:"detail,omitempty"` // what happens instead, where it lacks
}

// FeatureName names a feature.
type FeatureName string

// The features.
const (
	FeatureHostRoot     FeatureName = "host root" // the host's own system directories as the root
	FeatureRootDir      FeatureName = "root directory"
	FeatureImage        FeatureName = "image"
	FeatureHostDirs     FeatureName = "host directories" // as the workspace, and mounted
	FeatureCommands     FeatureName = "allowed commands"
	FeatureInodes       FeatureName = "limit inodes"
	FeatureMemoryAlone  FeatureName = "memory limit of one process" // who meets it dies alone, and the sandbox goes on
	FeatureCheckpoint   FeatureName = "checkpoint"
	FeatureForkedPython FeatureName = "warm python"
)

// Featured is a Backend that tells its features.
type Featured interface {
	Features() []Feature
}

// HasFeature says whether a backend has a feature. One that tells of none has all.
func HasFeature(b Backend, name FeatureName) bool {
	f, tells := b.(Featured)
	if !tells {
		return true
	}
	for _, feature := range f.Features() {
		if feature.Name == name {
			return feature.Has
		}
	}
	return false
}
