package native

import "github.com/fumehood-dev/fumehood/sandbox"

func (b *Backend) Features() []sandbox.Feature {
	return []sandbox.Feature{
		{Name: sandbox.FeatureHostRoot, Has: true},
		{Name: sandbox.FeatureRootDir, Has: true},
		{Name: sandbox.FeatureImage, Detail: "refused; images come later"},
		{Name: sandbox.FeatureHostDirs, Has: true},
		{Name: sandbox.FeatureCommands, Has: true},
		{Name: sandbox.FeatureInodes, Has: true},
		{Name: sandbox.FeatureMemoryAlone, Has: true},
		{Name: sandbox.FeatureCheckpoint, Detail: "the kernel has none that is safe with hostile processes"},
		{Name: sandbox.FeatureForkedPython, Has: true},
		{Name: sandbox.FeatureNetwork, Has: true},
	}
}
