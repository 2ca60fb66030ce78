package docker

import (
	"slices"
	"strings"
	"testing"

	"github.com/moby/moby/api/types/container"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestDowngrades: a container that differs from the request is caught before any code runs. A limit can be waived by
// name, an isolation layer cannot.
func TestDowngrades(t *testing.T) {
	b := open(t, options(t, Name))
	box := create(t, b, spec())
	at, err := box.to.container(within(t), failVerify, box.name())
	if err != nil {
		t.Fatal(err)
	}
	s := spec()
	if err := box.verify(&s, &at); err != nil {
		t.Fatalf("as it was made: %v", err)
	}
	pids := int64(1 << 20)
	for name, change := range map[string]func(h *container.HostConfig){
		"memory": func(h *container.HostConfig) { h.Memory = 0 }, "cpus": func(h *container.HostConfig) {
			h.CPUQuota,
				h.NanoCPUs = 0, 0
		},
		"pids": func(h *container.HostConfig) { h.PidsLimit = &pids },
	} {
		changed, host := at, *at.HostConfig
		change(&host)
		changed.HostConfig = &host
		s := spec()
		err := box.verify(&s, &changed)
		if sandbox.KindOf(err) != sandbox.Unsupported || !slices.Equal(sandbox.UnenforcedOf(err),
			[]sandbox.LimitName{sandbox.LimitName(name)}) {
			t.Errorf("%s: %v", name, err)
		}
		s.AllowUnenforced = []string{name}
		if err := box.verify(&s, &changed); err != nil || !slices.Contains(box.Policy.Unenforced, name) ||
			box.Policy.Limits.Get(sandbox.LimitName(name)) != sandbox.Unlimited {
			t.Errorf("%s, waived: %v, %+v", name, err, box.Policy)
		}
	}
	for name, change := range map[string]func(at *container.InspectResponse){
		"privileged": func(at *container.InspectResponse) { at.HostConfig.Privileged = true },
		"root":       func(at *container.InspectResponse) { at.HostConfig.ReadonlyRootfs = false },
		"network":    func(at *container.InspectResponse) { at.HostConfig.NetworkMode = "bridge" },
		"processes":  func(at *container.InspectResponse) { at.HostConfig.PidMode = "host" },
		"IPC":        func(at *container.InspectResponse) { at.HostConfig.IpcMode = "host" },
		"user ids":   func(at *container.InspectResponse) { at.HostConfig.UsernsMode = "host" },
		"host name":  func(at *container.InspectResponse) { at.HostConfig.UTSMode = "host" },
		"privileges": func(at *container.InspectResponse) { at.HostConfig.SecurityOpt = nil },
		"filter": func(at *container.InspectResponse) {
			at.HostConfig.SecurityOpt = []string{"no-new-privileges", "seccomp=unconfined"}
		},
		"capability": func(at *container.InspectResponse) {
			at.HostConfig.CapAdd = append(at.HostConfig.CapAdd,
				"SYS_ADMIN")
		},
		"volume": func(at *container.InspectResponse) {
			at.Mounts = append(at.Mounts, container.MountPoint{Destination: "/data"})
		},
	} {
		changed, host := at, *at.HostConfig
		changed.HostConfig = &host
		change(&changed)
		s := spec()
		s.AllowUnenforced = []string{"memory", "cpus", "pids", "disk", "inodes"}
		if err := box.verify(&s, &changed); sandbox.KindOf(err) != sandbox.Unavailable || err == nil {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestUnenforced forces each limit that an engine may be unable to enforce: mandatory and named ones are refused,
// others reported.
func TestUnenforced(t *testing.T) {
	b := open(t, options(t, Name))
	real := connected(t, b)
	for _, name := range []sandbox.LimitName{sandbox.LimitMemory, sandbox.LimitPids, sandbox.LimitCPUs} {
		to := *real
		to.rootless, to.info.CgroupVersion = true, "1"
		switch name {
		case sandbox.LimitMemory:
			to.info.MemoryLimit = false
		case sandbox.LimitPids:
			to.info.PidsLimit = false
		default:
			to.info.CPUCfsQuota = false
		}
		s := spec()
		s.Named = []sandbox.LimitName{name}
		err := to.enforcement(&s).Refusal(Name, &s)
		if sandbox.KindOf(err) != sandbox.Unsupported || !strings.Contains(err.Error(), "cgroup v2") ||
			!slices.Contains(sandbox.UnenforcedOf(err), name) {
			t.Errorf("%s, named: %v", name, err)
		}
		s.Named = nil
		if err := to.enforcement(&s).Refusal(Name, &s); (err != nil) != (name != sandbox.LimitCPUs) {
			t.Errorf("%s, not named: %v", name, err)
		}
		s.AllowUnenforced = []string{string(name)}
		if err := to.enforcement(&s).Refusal(Name, &s); err != nil {
			t.Errorf("%s, waived: %v", name, err)
		}
		if p := to.policy(&s, to.enforcement(&s)); !slices.Contains(p.Unenforced, string(name)) ||
			p.Limits.Get(name) != sandbox.Unlimited || p.Enforcers[name] != "" {
			t.Errorf("%s, waived: %+v", name, p)
		}
	}
}
