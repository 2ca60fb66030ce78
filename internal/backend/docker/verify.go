package docker

import (
	"fmt"
	"slices"
	"strings"

	"github.com/moby/moby/api/types/container"

	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// verify compares the container with the request, before any code runs, and sets the enforced policy. A missing
// isolation layer is always an error; an unenforced limit is one unless the caller waived it.
func (box *Box) verify(spec *sandbox.Spec, at *container.InspectResponse) error {
	to := box.to
	wrong := differences(at, box.places(spec))
	// Podman reports no name there
	if requested := to.engine.options.Runtime; requested != "" && !to.podman && at.HostConfig.Runtime != requested {
		wrong = append(wrong, "it is run by "+at.HostConfig.Runtime)
	}
	if len(wrong) > 0 {
		return &sandbox.Error{Kind: sandbox.Unavailable, Op: to.engine.options.Name + ": " + failVerify,
			Msg: "the engine made a container that differs from the request: " + strings.Join(wrong, "; ")}
	}
	kept := to.enforcement(spec)
	unmet, details := box.unmet(spec, at.HostConfig)
	for i := range kept {
		// the engine claimed to enforce it, so refuse even an unnamed limit
		if b := &kept[i]; b.By != "" && slices.Contains(unmet, b.Name) {
			b.By, b.Mandatory = "", true
			b.Why, b.Fix = "the engine does not enforce it although requested: "+details, to.limitFix()
		}
	}
	if err := kept.Refusal(to.engine.options.Name, spec); err != nil {
		return err
	}
	box.Policy = to.policy(spec, kept)
	box.Policy.Image = box.backend.image(spec) + " (" + at.Image + ")"
	return nil
}

// places lists every mount target that we requested.
func (box *Box) places(spec *sandbox.Spec) []string {
	list := []string{guestDir, socketDir}
	for target := range box.to.tmpfs(spec) {
		list = append(list, target)
	}
	if spec.Network.Linked() {
		list = append(list, resolverPath)
	}
	for _, m := range rootfs.HostMounts(spec) {
		list = append(list, m.Target)
	}
	return list
}

// differences lists how a container's isolation differs from the request.
func differences(at *container.InspectResponse, ours []string) (wrong []string) {
	h := at.HostConfig
	check := func(ok bool, what string) {
		if !ok {
			wrong = append(wrong, what)
		}
	}
	is := func(value string, allowed ...string) bool { return slices.Contains(allowed, value) }
	check(!h.Privileged, "it is privileged")
	check(h.ReadonlyRootfs, "its root is writable")
	check(is(string(h.NetworkMode), "none"), "its network is "+string(h.NetworkMode))
	check(is(string(h.PidMode), "", "private"), "its pid namespace is that of "+string(h.PidMode))
	// Podman reports private ones so
	check(is(string(h.IpcMode), "private", "shareable"), "its IPC namespace is that of "+string(h.IpcMode))
	check(is(string(h.UTSMode), "", "private"), "its UTS namespace is that of "+string(h.UTSMode))
	check(is(string(h.UsernsMode), "", "private", "auto"), "its user namespace is that of "+string(h.UsernsMode))
	check(len(h.Devices) == 0 && len(h.DeviceRequests) == 0, "it has devices")
	check(slices.ContainsFunc(h.SecurityOpt, func(o string) bool {
		return strings.HasPrefix(o, "no-new-privileges") && !strings.HasSuffix(o, "false")
	}), "it may gain privileges")
	check(!slices.ContainsFunc(h.SecurityOpt, func(o string) bool { return o == "seccomp=unconfined" }),
		"its system calls are not filtered")
	for _, c := range h.CapAdd {
		check(slices.Contains(guestCaps, "CAP_"+strings.TrimPrefix(strings.ToUpper(c), "CAP_")),
			"it has the capability "+c)
	}
	for _, m := range at.Mounts {
		if !slices.Contains(ours, m.Destination) {
			check(false, fmt.Sprintf("its image declares %s a volume, which is writable and unlimited", m.Destination))
		}
	}
	return wrong
}

// unmet lists the limits whose value in the engine, or in this kernel, differs from the request, with details.
func (box *Box) unmet(spec *sandbox.Spec, h *container.HostConfig) (names []sandbox.LimitName, details string) {
	memory, cpu, pids := spec.Limits.MemoryBytes, spec.Limits.CPUMillis, spec.Limits.Pids+ownThreads
	saysPids, saysCPU := int64(0), h.NanoCPUs/1e6
	if h.PidsLimit != nil {
		saysPids = *h.PidsLimit
	}
	if h.CPUPeriod > 0 {
		saysCPU = h.CPUQuota * 1000 / h.CPUPeriod
	}
	swap := h.MemorySwap == memory || !box.to.info.SwapLimit
	kernelMemory, kernelCPU, kernelPids, known := box.counters.limits()
	holds := func(n, most int64) bool { return !known || n > 0 && n <= most }
	for _, l := range []struct {
		name                    sandbox.LimitName
		ok                      bool
		requested, says, kernel int64
	}{
		{sandbox.LimitMemory, h.Memory == memory && swap && holds(kernelMemory, memory), memory, h.Memory,
			kernelMemory},
		{sandbox.LimitCPUs, saysCPU == cpu && holds(kernelCPU, cpu), cpu, saysCPU, kernelCPU},
		{sandbox.LimitPids, saysPids == pids && holds(kernelPids, pids), pids, saysPids, kernelPids},
	} {
		if l.ok {
			continue
		}
		names = append(names, l.name)
		details += fmt.Sprintf("; %s: requested %d, it reports %d", l.name, l.requested, l.says)
		if known {
			details += fmt.Sprintf(", the kernel has %d", l.kernel)
		}
	}
	return names, strings.TrimPrefix(details, "; ")
}
