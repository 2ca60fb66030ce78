package native

import (
	"context"
	"fmt"
	"os"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/host/cgroup"
	"github.com/fumehood-dev/fumehood/internal/host/enforce"
	"github.com/fumehood-dev/fumehood/internal/host/hostid"
	"github.com/fumehood-dev/fumehood/internal/host/tap"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Probe creates a sandbox and closes it again, the only reliable test.
func (b *Backend) Probe(ctx context.Context) (sandbox.Posture, error) {
	posture := sandbox.Posture{Backend: Name, Kernel: sandbox.KernelShared}
	in, err := b.instance()
	if err != nil {
		return posture, err
	}
	spec := sandbox.Spec{ID: sandbox.NewID(), Limits: sandbox.DefaultLimits, User: sandbox.DefaultUser,
		AllowUnenforced: []string{string(sandbox.LimitMemory), string(sandbox.LimitCPUs)}}
	box, err := b.Create(ctx, spec)
	if err != nil {
		posture.Walls = b.walls(in.Tree, "", false)
		return posture, err
	}
	effective := box.Effective()
	corePattern, _ := os.ReadFile("/proc/sys/kernel/core_pattern")
	posture.Walls = append(effective.Walls, tap.Wall(), crashWall(string(corePattern)), b.hoardWall(seesHoards()),
		hostWall(readHostNumbers()))
	posture.Ready = in.Tree.Enforcer(cgroup.Memory) != ""
	return posture, box.Close()
}

// walls lists the isolation layers of the posture. hostUID is "" if no sandbox could be made. A linked sandbox has a
// network.
func (b *Backend) walls(tree *cgroup.Tree, hostUID string, linked bool) []sandbox.Wall {
	enforced := sandbox.WallEnforced
	if hostUID == "" {
		enforced = sandbox.WallMissing
	}
	walls := []sandbox.Wall{
		{Name: "kernel", State: sandbox.WallPartial, Detail: "Linux " + b.kernel.Release + ", shared with the host",
			Fix: "for hostile tenants use a backend with its own kernel, such as gvisor"},
		{Name: "namespaces", State: enforced, Detail: "user, mount, pid, network, ipc, uts, cgroup"},
		{Name: "root", State: enforced,
			Detail: "pivot_root onto a read-only tree; /proc masked and read-only; /dev of its own"},
		{Name: "network", State: enforced, Detail: tap.Detail(linked)},
		{Name: "capabilities", State: enforced, Detail: "none, with no_new_privs"},
		{Name: "seccomp", State: enforced, Detail: "allow list"},
		b.landlockWall(),
		hostUIDWall(hostUID),
	}
	memory := enforce.Wall(sandbox.LimitMemory, tree, cgroup.Memory, "memory is not limited")
	if memory.State == sandbox.WallMissing {
		memory.Fix += "; or accept unlimited memory with allow_unenforced"
	}
	pids := enforce.Wall(sandbox.LimitPids, tree, cgroup.Pids, "RLIMIT_NPROC limits processes")
	if pids.State == sandbox.WallMissing {
		pids.State = sandbox.WallPartial
	}
	return append(walls, memory, pids, enforce.Wall(sandbox.LimitCPUs, tree, cgroup.CPU, "CPU time is not limited"))
}

func (b *Backend) landlockWall() sandbox.Wall {
	w := sandbox.Wall{Name: "landlock", State: sandbox.WallEnforced, Detail: fmt.Sprintf("version %d",
		b.kernel.landlock)}
	switch {
	case b.kernel.landlock == 0:
		w.State, w.Detail = sandbox.WallMissing, "this kernel lacks it, or it is disabled"
		w.Fix = "add landlock to the lsm= list of the kernel command line (CONFIG_SECURITY_LANDLOCK, Linux 5.13)"
	case b.kernel.landlock < 6:
		w.State, w.Detail = sandbox.WallPartial, w.Detail+"; only namespaces confine signals and abstract sockets"
		w.Fix = "Linux 6.12 has version 6"
	}
	return w
}

// crashWall reports the host program to which the kernel passes every crash of any process (core(5)). A limit on core
// dumps does not exempt a process that executes a readable program.
func crashWall(corePattern string) sandbox.Wall {
	w := sandbox.Wall{Name: "crashes", State: sandbox.WallEnforced, Detail: "no host program reads crashed processes"}
	if program, is := strings.CutPrefix(strings.TrimSpace(corePattern), "|"); is {
		program, _, _ = strings.Cut(program, " ")
		w.State, w.Detail = sandbox.WallPartial,
			"root's "+program+" reads the memory of every program that crashes in a sandbox"
		w.Fix = "sysctl kernel.core_pattern=core"
	}
	return w
}

// hoardWall reports whether locks and sockets are limited.
func (b *Backend) hoardWall(err error) sandbox.Wall {
	w := sandbox.Wall{Name: "locks, sockets", State: sandbox.WallEnforced,
		Detail: fmt.Sprintf("code with more than %d file locks (fewer while this host has more than %d) or %d sockets "+
			"is killed", mostLocks, allLocks, mostSockets)}
	switch {
	case err != nil:
		w.State, w.Detail, w.Fix = sandbox.WallPartial, "not limited: "+err.Error(),
			"mount /proc without hidepid, or run as root"
	case b.kernel.keepsCopies:
		w.State, w.Fix = sandbox.WallPartial, "sysctl -w net.core.tstamp_allow_data=0, or Linux 6.18"
		w.Detail = fmt.Sprintf("code with more than %d locks, %d TCP sockets or %s in UDP sockets is killed: they can "+
			"hold memory that this kernel charges to no group",
			mostLocks, fewSockets, sandbox.FormatBytes(mostQueued))
	}
	return w
}

func hostUIDWall(hostUID string) sandbox.Wall {
	w := sandbox.Wall{Name: "host_uid", Detail: hostUID}
	switch hostUID {
	case hostid.Unique:
		w.State = sandbox.WallEnforced
	case hostid.Subordinate:
		w.State = sandbox.WallEnforced
	case hostid.Shared:
		w.State = sandbox.WallPartial
		w.Fix = "install uidmap and give this user ranges in /etc/subuid and /etc/subgid, or run as root"
	default:
		w.State, w.Detail = sandbox.WallMissing, "no sandbox could be made"
	}
	return w
}
