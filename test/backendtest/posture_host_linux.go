package backendtest

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// hostView is the host kernel's view of one box's processes.
type hostView struct {
	testing.TB
	box   sandbox.Box
	names map[string]string // of the box's own ids, in order of appearance
	lines map[string]bool
}

// viewOf examines each kind of process of a box: its threads' identities and properties. Equal threads are one line, as
// their number is random.
func viewOf(t testing.TB, box sandbox.Box) *hostView {
	t.Helper()
	v := &hostView{TB: t, box: box, names: map[string]string{}, lines: map[string]bool{}}
	pids := processesOfBox(box)
	if len(pids) == 0 {
		t.Fatal("the host sees no process of the box")
	}
	for _, pid := range pids {
		v.process(pid)
	}
	return v
}

func (v *hostView) record() []string {
	record := make([]string, 0, len(v.lines))
	for line := range v.lines {
		record = append(record, line)
	}
	return record
}

// groupsInside matches the groups in a line of the record, from a status file or getgroups(2).
var groupsInside = regexp.MustCompile(`(Groups )[^,]*|(ids .*\) )\[.*\]`)

// containerID is an engine's name for a container or a volume.
var containerID = regexp.MustCompile(`[0-9a-f]{64}`)

// peerGroup is the number of a mount group, which is random.
var peerGroup = regexp.MustCompile(`(master:)\d+`)

var optionID = regexp.MustCompile(`([ug]id=)(\d+)`)

// named replaces the box's id, and the host ids that mount options show inside, by names.
func (v *hostView) named(line string) string {
	line = strings.ReplaceAll(line, string(v.box.ID()), "BOX")
	line = peerGroup.ReplaceAllString(containerID.ReplaceAllString(line, "CONTAINER"), "${1}N")
	// only root can drop groups, and the caller's are arbitrary
	if v.box.Effective().HostUID == "shared" && os.Geteuid() != 0 {
		line = groupsInside.ReplaceAllString(line, "${1}${2}the caller's")
	}
	var own unix.Rlimit // follows the memory of the host; engines leave it to containers
	if unix.Getrlimit(unix.RLIMIT_NPROC, &own) == nil {
		line = strings.Replace(line, fmt.Sprintf("RLIMIT_NPROC %d %d", own.Cur, own.Max), "RLIMIT_NPROC as the host", 1)
	}
	return optionID.ReplaceAllStringFunc(line, func(option string) string {
		parts := optionID.FindStringSubmatch(option)
		if v.names[parts[2]] != "" || parts[2] == strconv.Itoa(os.Geteuid()) {
			return parts[1] + v.ids(parts[2])
		}
		return option
	})
}

// located is an engine's box, which its first process's command line does not name.
type located interface{ HostPID() int }

// processesOfBox finds, sorted, the processes that name the box on their command line, their descendants, and the
// others in their pid namespaces.
func processesOfBox(box sandbox.Box) []int {
	ours := procNamespaces(os.Getpid())["pid"]
	inside := map[string]bool{}
	found := map[int]bool{}
	word := string(box.ID())
	if l, knows := box.(located); knows { // the engine's own processes may name the container
		if found[l.HostPID()] = true; !isAlive(l.HostPID()) {
			return nil
		}
		inside[procNamespaces(l.HostPID())["pid"]], word = true, "\x00"+word+"\x00\x00"
	}
	for grown := true; grown; {
		grown = false
		for _, pid := range procNumbers("/proc") {
			if found[pid] {
				continue
			}
			line, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
			parent, _ := strconv.Atoi(procStatus(fmt.Sprintf("/proc/%d", pid))["PPid"])
			space := procNamespaces(pid)["pid"]
			if strings.Contains(string(line), word) || found[parent] || inside[space] {
				found[pid], grown = true, true
				if space != ours && space != "" {
					inside[space] = true
				}
			}
		}
	}
	var pids []int
	for pid := range found {
		pids = append(pids, pid)
	}
	slices.Sort(pids)
	return pids
}

func isAlive(pid int) bool { return len(procNamespaces(pid)) > 0 }

// unreadable replaces values that only root may read.
const unreadable = "unreadable"

func (v *hostView) say(format string, args ...any) {
	v.lines["host: "+fmt.Sprintf(format, args...)] = true
}

func (v *hostView) process(pid int) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	line, err := os.ReadFile(dir + "cmdline")
	program, _, _ := strings.Cut(string(line), "\x00")
	name := filepath.Base(program)
	if err != nil || program == "" {
		return // it has ended
	}
	for _, tid := range procNumbers(dir + "task") {
		status := procStatus(dir + "task/" + strconv.Itoa(tid))
		if len(status) == 0 {
			continue
		}
		var words []string
		for _, field := range []string{"Uid", "Gid", "Groups"} {
			ids := v.ids(status[field])
			if field == "Groups" && v.box.Effective().HostUID == "shared" && os.Geteuid() != 0 &&
				status[field] == procStatus("/proc/self")[field] {
				ids = "the caller's"
			}
			words = append(words, field+" "+ids)
		}
		ours := procStatus("/proc/self")
		for _, field := range []string{"CapInh", "CapPrm", "CapEff", "CapBnd", "CapAmb", "NoNewPrivs", "Seccomp",
			"Seccomp_filters", "TracerPid"} {
			value := status[field]
			if v.box.Effective().Kernel != sandbox.KernelShared && len(v.apart(pid)) < 2 &&
				strings.HasPrefix(field, "Cap") &&
				value == ours[field] {
				value = "as this process" // it is in no user namespace
			}
			words = append(words, field+" "+value)
		}
		v.say("%s: thread %s", name, strings.Join(words, ", "))
	}
	v.say("%s: namespaces that are not the host's: %s", name, strings.Join(v.apart(pid), " "))
	v.say("%s: control groups: %s", name, v.groups(pid))
	for _, file := range []string{"uid_map", "gid_map"} {
		v.say("%s: %s %s", name, file, v.mapping(dir+file))
	}
	v.say("%s: oom_score_adj %s", name, v.score(dir))
	// the limits of another kernel's processes are the server's own
	if v.box.Effective().Kernel == sandbox.KernelShared {
		v.limits(name, dir)
	}
	v.say("%s: descriptors %s", name, v.descriptors(dir+"fd"))
	env, err := os.ReadFile(dir + "environ")
	var names []string
	if err != nil {
		names = []string{unreadable}
	}
	for kv := range strings.SplitSeq(string(env), "\x00") {
		if n, _, ok := strings.Cut(kv, "="); ok {
			names = append(names, n)
		}
	}
	slices.Sort(names)
	v.say("%s: environment %s", name, strings.Join(names, " "))
	mounts, _ := os.ReadFile(dir + "mountinfo")
	v.say("%s: a mount is shared with the host: %v", name, strings.Contains(string(mounts), " shared:") &&
		len(v.apart(pid)) > 0)
}

// score is the process's out-of-memory score. If the server may not lower it, it is the server's own.
func (v *hostView) score(dir string) string {
	read := func(dir string) int {
		text, _ := os.ReadFile(dir + "oom_score_adj")
		n, _ := strconv.Atoi(strings.TrimSpace(string(text)))
		return n
	}
	if its := read(dir); its > read("/proc/self/") {
		return strconv.Itoa(its)
	}
	return "not above that of this process"
}

func (v *hostView) limits(name, dir string) {
	its, _ := os.ReadFile(dir + "limits")
	ours, _ := os.ReadFile("/proc/self/limits")
	for _, limit := range []string{"Max core file size", "Max open files", "Max processes", "Max locked memory",
		"Max pending signals", "Max msgqueue size",
		"Max nice priority", "Max realtime priority", "Max stack size"} {
		value := procLimit(string(its), limit)
		if limit == "Max processes" && value == procLimit(string(ours), limit) {
			value = "as this process has it" // it counts by user, and the guest has its own
		}
		v.say("%s: %s %s", name, limit, value)
	}
}

// ids names the host's ids: root's, this process's, and the box's own in order of appearance.
func (v *hostView) ids(list string) string {
	var out []string
	for id := range strings.FieldsSeq(list) {
		switch {
		case id == "0":
			out = append(out, "root")
		case id == strconv.Itoa(os.Geteuid()):
			out = append(out, "the caller")
		default:
			if v.names[id] == "" {
				v.names[id] = fmt.Sprintf("own%d", len(v.names)+1)
			}
			out = append(out, v.names[id])
		}
	}
	return strings.Join(slices.Compact(out), " ")
}

// mapping shows an id map with named host ids.
func (v *hostView) mapping(file string) string {
	text, _ := os.ReadFile(file)
	var out []string
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) == 3 {
			out = append(out, fmt.Sprintf("%s is %s for %s", f[0], v.ids(f[1]), f[2]))
		}
	}
	return strings.Join(out, "; ")
}

// apart lists the kinds of namespaces that a process does not share with this one.
func (v *hostView) apart(pid int) []string {
	ours, theirs := procNamespaces(os.Getpid()), procNamespaces(pid)
	if len(theirs) == 0 {
		return []string{unreadable}
	}
	var kinds []string
	for kind, space := range theirs {
		if space != "" && space != ours[kind] {
			kinds = append(kinds, kind)
		}
	}
	slices.Sort(kinds)
	return kinds
}

// groups reports whether a process is in the box's own control group, for each controller that enforces a limit.
func (v *hostView) groups(pid int) string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	ours, _ := os.ReadFile("/proc/self/cgroup")
	_, engines := v.box.(located) // whose groups have names of their own
	in := map[string]bool{}
	for line := range strings.Lines(string(text)) {
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) == 3 && (strings.Contains(f[2], string(v.box.ID())) || engines &&
			!strings.Contains(string(ours), line)) {
			for c := range strings.SplitSeq(f[1], ",") {
				in[c] = true
			}
		}
	}
	for limit, enforcer := range v.box.Effective().Enforcers {
		for controller := range strings.SplitSeq(enforcer, ", ") {
			kind, ok := strings.CutPrefix(controller, "cgroup v1 ")
			kind, _, _ = strings.Cut(kind, " ")
			switch {
			case ok && !in[kind], !ok && strings.HasPrefix(controller, "cgroup v2 ") && !in[""]:
				return "not in that which bounds " + string(limit)
			}
		}
	}
	return "in all that are said to bound it"
}

// kindsOfFiles describe files whose names depend on chance or this host.
var kindsOfFiles = []struct {
	name  *regexp.Regexp
	words string
}{
	{regexp.MustCompile(`:\[\d+\]$`), ""},
	{regexp.MustCompile(`^.*/(host-ids|trees/[0-9a-f]+/used)$`), "the claims on host ids and an image"},
	{regexp.MustCompile(`^/root(/.*)?$`), "files of the root"}, // of gVisor's, as they were looked at
	{regexp.MustCompile(`^.*/cpu\.(cfs_.*|max)$`), "the CPU limit of the box"},
}

// descriptors lists a process's open files, each kind once.
func (v *hostView) descriptors(dir string) string {
	var kinds []string
	entries, err := os.ReadDir(dir)
	if err != nil {
		return unreadable
	}
	for _, e := range entries {
		if to, err := os.Readlink(filepath.Join(dir, e.Name())); err == nil {
			if i := strings.Index(to, string(v.box.ID())); i >= 0 {
				to = "BOX" + to[i+len(v.box.ID()):]
			}
			for _, k := range kindsOfFiles {
				to = k.name.ReplaceAllString(to, k.words)
			}
			kinds = append(kinds, to)
		}
	}
	slices.Sort(kinds)
	return strings.Join(slices.Compact(kinds), ", ")
}
