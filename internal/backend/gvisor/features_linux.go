package gvisor

import "github.com/fumehood-dev/fumehood/sandbox"

func (b *Backend) Features() []sandbox.Feature {
	return []sandbox.Feature{
		{Name: sandbox.FeatureHostRoot, Has: true},
		{Name: sandbox.FeatureRootDir, Has: true},
		{Name: sandbox.FeatureImage, Detail: "refused; images come later"},
		{Name: sandbox.FeatureHostDirs, Has: true},
		{Name: sandbox.FeatureCommands, Detail: "refused unless waived by name: gVisor has no Landlock"},
		{Name: sandbox.FeatureInodes, Detail: "unlimited, and refused if named: gVisor's tmpfs counts bytes only"},
		{Name: sandbox.FeatureMemoryAlone,
			Detail: "the kernel kills gVisor itself, and the whole sandbox with it"},
		{Name: sandbox.FeatureNetwork, Has: true},
		{Name: sandbox.FeatureCheckpoint, Has: true},
		{Name: sandbox.FeatureForkedPython, Detail: "sandboxes are started ahead instead"},
	}
}
