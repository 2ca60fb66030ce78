package attack

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// checkOnHost checks a sandbox's host processes, on any backend: those of a user-space kernel and its servers, which an
// escaping attack would control, or those of a container. One supervisor may be outside. It returns the number of
// checked processes.
func (tr *trial) checkOnHost(g *sighting) (looked int) {
	ours := namespaces(os.Getpid())
	if ours["user"] == "" {
		tr.giveUp("/proc is not readable here")
	}
	outside := 0
	for _, pid := range g.processes() {
		theirs := namespaces(pid)
		switch state := statusMap(pid, pid)["State"]; {
		case len(theirs) == 0, state == "", strings.HasPrefix(state, "Z"): // ended, or only root may look
		case theirs["user"] == ours["user"] && theirs["pid"] == ours["pid"]:
			outside++
		default:
			looked++
			tr.checkHosted(&hostedProcess{pid: pid, first: slices.Contains(g.inner, pid),
				ownUsers: theirs["user"] != ours["user"]},
				theirs, ours)
		}
	}
	if outside > 1 {
		tr.fail("%d processes of the sandbox share our namespaces", outside)
	}
	return looked
}

type hostedProcess struct {
	pid      int
	first    bool // in its pid namespace
	ownUsers bool // it is in a user namespace of its own
}

// keeperCapabilities are the most that a process may have over its own user namespace, in which only the sandbox's ids
// are mapped: to serve files of those ids, to confine itself, and to trace the processes in which the code runs.
// CAP_CHOWN to CAP_FSETID, CAP_SYS_CHROOT, CAP_SYS_PTRACE
const keeperCapabilities = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<18 | 1<<19

func (p *hostedProcess) capabilities() uint64 {
	switch {
	case p.ownUsers:
		return keeperCapabilities | guestCapabilities
	case p.first:
		return guestCapabilities
	}
	return 0
}

func (tr *trial) checkHosted(p *hostedProcess, theirs, ours map[string]string) {
	tr.checkNamespaces(p.pid, theirs, ours, tr.userSpace())
	for _, tid := range threads(p.pid) {
		tr.checkHostedThread(p, tid)
	}
	tr.checkEnviron(p.pid)
	if p.ownUsers {
		tr.checkIDMap(p.pid, "uid_map", tr.userSpace())
		tr.checkIDMap(p.pid, "gid_map", tr.userSpace())
	}
}

func (tr *trial) checkHostedThread(p *hostedProcess, tid int) {
	status := statusMap(p.pid, tid)
	if len(status) == 0 {
		return // it has ended
	}
	tr.checkThreadStatus(tid, status, p.capabilities(), nil)
	for _, kind := range []string{"Uid", "Gid"} {
		for _, id := range strings.Fields(status[kind]) {
			if id == "0" && (p.ownUsers || !p.first) {
				tr.fail("thread %d of the sandbox has the host's %s %s", tid, kind, id)
			}
		}
	}
}

// groupMembers are the processes in control groups.
func groupMembers(folders []string) []int {
	var all []int
	for _, folder := range folders {
		text, _ := os.ReadFile(filepath.Join(folder, "cgroup.procs"))
		for word := range strings.FieldsSeq(string(text)) {
			if pid, err := strconv.Atoi(word); err == nil {
				all = append(all, pid)
			}
		}
	}
	return all
}
