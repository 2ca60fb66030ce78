package plan

import (
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestVolumes: a volume has one kind, and a path that is not part of the sandbox itself.
func TestVolumes(t *testing.T) {
	rules := Rules{VolumeDir: func(dir string, readOnly bool) error {
		if dir != "/srv/refs" || !readOnly {
			return sandbox.Invalidf("volumes", "not offered")
		}
		return nil
	}}
	data := sandbox.Volume{Name: "data", Path: "/data"}
	at := func(path string) sandbox.Volume { return sandbox.Volume{Name: "data", Path: path} }
	for _, c := range []struct {
		name string
		ok   bool
		list []sandbox.Volume
	}{
		{"named", true, []sandbox.Volume{data}},
		{"deep", true, []sandbox.Volume{at("/opt/data/x")}},
		{"memory", true, []sandbox.Volume{{Bytes: 1 << 20, Path: "/scratch"}, data}},
		{"host directory", true, []sandbox.Volume{{HostDir: "/srv/refs", Path: "/refs", ReadOnly: true}}},

		{"no path", false, []sandbox.Volume{at("")}},
		{"the root", false, []sandbox.Volume{at("/")}},
		{"relative", false, []sandbox.Volume{at("data")}},
		{"not clean", false, []sandbox.Volume{at("/data/../proc")}},
		{"a slash at its end", false, []sandbox.Volume{at("/data/")}},
		{"NUL", false, []sandbox.Volume{at("/da\x00ta")}},
		{"proc", false, []sandbox.Volume{at("/proc")}},
		{"below proc", false, []sandbox.Volume{at("/proc/self")}},
		{"devices", false, []sandbox.Volume{at("/dev/shm")}},
		{"programs", false, []sandbox.Volume{at("/usr/bin")}},
		{"the guest's socket", false, []sandbox.Volume{at("/run/fumehood")}},
		{"the workspace", false, []sandbox.Volume{at("/workspace")}},
		{"in the workspace", false, []sandbox.Volume{at("/workspace/data")}},
		{"over the home", false, []sandbox.Volume{at("/home")}},
		{"twice", false, []sandbox.Volume{data, {Name: "data", Path: "/other"}}},
		{"same path", false, []sandbox.Volume{data, {Name: "other", Path: "/data"}}},
		{"inside of another", false, []sandbox.Volume{data, {Name: "other", Path: "/data/x"}}},
		{"around another", false, []sandbox.Volume{at("/data/x"), {Name: "other", Path: "/data"}}},
		{"no name", false, []sandbox.Volume{{Path: "/data"}}},
		{"a path as name", false, []sandbox.Volume{{Name: "../x", Path: "/data"}}},
		{"two kinds", false, []sandbox.Volume{{Name: "data", Bytes: 1 << 20, Path: "/data"}}},
		{"negative", false, []sandbox.Volume{{Bytes: -1, Path: "/data"}}},
		{"more than the memory", false, []sandbox.Volume{{Bytes: 2 << 30, Path: "/data"}}},
		{"another host directory", false, []sandbox.Volume{{HostDir: "/srv/refs2", Path: "/refs", ReadOnly: true}}},
		{"writable host directory", false, []sandbox.Volume{{HostDir: "/srv/refs", Path: "/refs"}}},
		{"host workspace", false, []sandbox.Volume{{HostDir: "/srv/refs", Path: "/workspace"}}},
		{"too many", false, make([]sandbox.Volume, maxVolumes+1)},
	} {
		spec := sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 1 << 30}, Volumes: c.list}
		if err := rules.checkVolumes(&spec); (err == nil) != c.ok {
			t.Errorf("%s: %v", c.name, err)
		} else if err != nil && sandbox.KindOf(err) != sandbox.Invalid {
			t.Errorf("%s: the kind of %v", c.name, err)
		}
	}
	spec := sandbox.Spec{Mounts: []sandbox.Mount{{Source: "/srv", Target: "/data"}}, Volumes: []sandbox.Volume{data}}
	if rules.checkVolumes(&spec) == nil {
		t.Error("a volume over a mount is accepted")
	}
}

// TestMemoryVolumes: volumes in memory count towards the operator's maxima for files.
func TestMemoryVolumes(t *testing.T) {
	rules := Rules{Max: sandbox.Limits{DiskBytes: 64 << 20, Inodes: 900}}
	for _, c := range []struct {
		size, inodes int64
		ok           bool
	}{{16 << 20, 300, true}, {17 << 20, 300, false}, {16 << 20, 301, false}} {
		spec := sandbox.Spec{Limits: sandbox.Limits{MemoryBytes: 1 << 30, DiskBytes: 32 << 20, Inodes: c.inodes},
			Volumes: []sandbox.Volume{{Bytes: c.size, Path: "/a"}, {Bytes: 16 << 20, Path: "/b"}}}
		if err := rules.checkVolumes(&spec); (err == nil) != c.ok {
			t.Errorf("%+v: %v", c, err)
		}
	}
}
