package attack

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

// onHost checks a sandbox's host processes, on any backend: those of a user-space kernel and its servers, which an escaping
// attack would control, or those of a container. One supervisor may be outside. It returns the number of checked processes.
func (tr *trial) onHost(g *sighting) (looked int) {
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
			tr.hosted(&hostedProcess{pid: pid, first: slices.Contains(g.inner, pid), ownUsers: theirs["user"] != ours["user"]}, theirs, ours)
		}
	}
	if outside > 1 {
		tr.wrong("%d processes of the sandbox share our namespaces", outside)
	}
	return looked
}

// hostedProcess is one of them.
type hostedProcess struct {
	pid      int
	first    bool // in its pid namespace
	ownUsers bool // it is in a user namespace of its own
}

// keeperCapabilities are the most that a process may have over its own user namespace, in which only the sandbox's ids are
// mapped: to serve files of those ids, to confine itself, and to trace the processes in which the code runs.
const keeperCapabilities = 1<<0 | 1<<1 | 1<<2 | 1<<3 | 1<<4 | 1<<18 | 1<<19 // CAP_CHOWN to CAP_FSETID, CAP_SYS_CHROOT, CAP_SYS_PTRACE

// capabilities are the most that it may have.
func (p *hostedProcess) capabilities() uint64 {
	switch {
	case p.ownUsers:
		return keeperCapabilities | guestCapabilities
	case p.first:
		return guestCapabilities
	}
	return 0
}

// hosted checks one process.
func (tr *trial) hosted(p *hostedProcess, theirs, ours map[string]string) {
	for _, kind := range namespaceKinds {
		if kind != "user" && (theirs[kind] == "" || theirs[kind] == ours[kind]) {
			tr.wrong("process %d of the sandbox is in the %s namespace %q, ours is %q", p.pid, kind, theirs[kind], ours[kind])
		}
	}
	if tr.userSpace() && !p.ownUsers {
		tr.wrong("process %d of the sandbox is in our user namespace", p.pid)
	}
	for _, tid := range threads(p.pid) {
		tr.hostedThread(p, tid)
	}
	if env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", p.pid)); tr.arena.canaries.Found(env) != "" {
		tr.wrong("process %d has the server's secret in its environment", p.pid)
	}
	for _, file := range []string{"uid_map", "gid_map"} {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", p.pid, file))
		for line := range strings.Lines(string(text)) {
			if f := strings.Fields(line); p.ownUsers && (len(f) != 3 || f[1] == "0" || tr.userSpace() && f[2] != "1") {
				tr.wrong("process %d maps %s", p.pid, line)
			}
		}
	}
}

// hostedThread checks one of its threads.
func (tr *trial) hostedThread(p *hostedProcess, tid int) {
	status := statusMap(p.pid, tid)
	if len(status) == 0 {
		return // it has ended
	}
	for name, value := range map[string]string{"NoNewPrivs": "1", "Seccomp": "2"} {
		if status[name] != value {
			tr.wrong("thread %d of the sandbox: %s is %s, want %s", tid, name, status[name], value)
		}
	}
	if caps, err := strconv.ParseUint(status["CapPrm"], 16, 64); err != nil || caps&^p.capabilities() != 0 {
		tr.wrong("thread %d of the sandbox has the capabilities %s", tid, status["CapPrm"])
	}
	for _, kind := range []string{"Uid", "Gid"} {
		for _, id := range strings.Fields(status[kind]) {
			if id == "0" && (p.ownUsers || !p.first) {
				tr.wrong("thread %d of the sandbox has the host's %s %s", tid, kind, id)
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
