package gvisor

import "github.com/glovebox-dev/glovebox/sandbox"

// Features are what this backend can do.
func (b *Backend) Features() []sandbox.Feature {
	return []sandbox.Feature{
		{Name: sandbox.FeatureHostRoot, Has: true},
		{Name: sandbox.FeatureRootDir, Has: true},
		{Name: sandbox.FeatureImage, Detail: "refused; images come later"},
		{Name: sandbox.FeatureHostDirs, Has: true},
		{Name: sandbox.FeatureCommands, Detail: "refused unless let go of by name: gVisor has no Landlock, and what holds programs back on a shared kernel does not exist in it"},
		{Name: sandbox.FeatureInodes, Detail: "unlimited, and refused where it is named: gVisor's file systems in memory count bytes alone"},
		{Name: sandbox.FeatureMemoryAlone, Detail: "gVisor itself is what the host's kernel kills, so the whole sandbox ends; the status is out_of_memory"},
		{Name: sandbox.FeatureCheckpoint, Has: true},
		{Name: sandbox.FeatureForkedPython, Detail: "sandboxes are booted ahead instead"},
	}
}
