package attack

import (
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// drivePosture is V01: the host kernel's view of every thread in the sandbox.
func drivePosture(tr *trial) {
	if _, err := os.Stat("/proc/self/ns/pid"); err != nil {
		tr.giveUp("/proc is not readable here")
	}
	looked, least := 0, 8                   // threads: the guest's, and those of two processes
	ours := tr.arena.spy.Name() == "native" // whose posture is known to the last bit
	if !ours {
		least = 1
	}
	run := tr.request(tr.attack.code)
	run.Spec.NestedFilters = true // needed for the probe to count Landlock's layers
	r := tr.runUntil("ready", run, func() {
		for _, g := range tr.arena.spy.sightings(tr.nonce) {
			if !ours {
				looked += tr.checkOnHost(g)
				continue
			}
			if g.guest == 0 {
				tr.doubt("the host does not see the guest of %s", g.box.ID())
				continue
			}
			tr.checkNamespaces(g.guest, g.namespaces, namespaces(os.Getpid()), true)
			tr.checkMounts(g)
			for _, pid := range members(g.namespaces["pid"]) {
				for _, tid := range threads(pid) {
					tr.checkThread(g, pid, tid)
					looked++
				}
				if pid != g.guest {
					tr.checkProcess(pid)
				}
			}
		}
	})
	tr.checkBreaches(r)
	tr.checkLandlock(r)
	if looked < least && !ours && (!tr.userSpace() || os.Geteuid() != 0) {
		tr.skip("this user cannot see the sandbox's processes on this host")
	}
	if looked < least {
		tr.giveUp("of the sandbox's processes the host shows %d: %s %s", looked, tail(r.Stdout), tail(r.Stderr))
	}
}

// checkLandlock checks that Landlock is enforced if the backend reports so. No file of /proc shows Landlock, and no
// attack would notice its loss, as it backs up other layers. But the kernel allows 16 rule sets (landlock(7)), and one
// is the sandbox's: the probe counts how many it can add.
func (tr *trial) checkLandlock(r *sandbox.Result) {
	const most = 16
	added := -1
	for line := range strings.Lines(string(r.Stdout.Head)) {
		_, _ = fmt.Sscanf(line, "landlock layers %d", &added)
	}
	for _, g := range tr.arena.spy.sightings(tr.nonce) {
		for _, w := range g.box.Effective().Walls {
			if w.Name == "landlock" && w.State != sandbox.WallMissing && added != most-1 {
				tr.fail("Landlock is reported as enforced, but the code could add %d layers; %d would be right", added,
					most-1)
			}
		}
	}
	tr.note("the code could add %d Landlock layers", added)
}

// guestCapabilities are the most that a guest may have in its own user namespace: to become the code's user, to signal
// it, and to set its limits.
const guestCapabilities = 1<<5 | 1<<6 | 1<<7 | 1<<24 // CAP_KILL, CAP_SETGID, CAP_SETUID, CAP_SYS_RESOURCE

func (tr *trial) checkThread(g *sighting, pid, tid int) {
	status := statusMap(pid, tid)
	if len(status) == 0 {
		return // it has ended
	}
	isGuest := pid == g.guest
	want := map[string]string{"CapInh": none64, "CapAmb": none64, "TracerPid": "0"}
	if !isGuest {
		maps.Copy(want, map[string]string{"CapPrm": none64, "CapEff": none64, "CapBnd": none64})
	}
	tr.checkThreadStatus(tid, status, guestCapabilities, want)
	for _, kind := range []string{"Uid", "Gid"} {
		ids := strings.Fields(status[kind])
		if isGuest && len(ids) == 4 {
			ids[3] = ids[0] // the guest makes file calls with the code's id
		}
		if len(ids) != 4 || ids[0] != ids[1] || ids[0] != ids[2] || ids[0] != ids[3] {
			tr.fail("thread %d has %s %v", tid, kind, ids)
		}
		switch own := strconv.Itoa(os.Geteuid()); {
		case g.box.Effective().HostUID == "shared":
		case ids[0] == "0" || ids[0] == own:
			tr.fail("thread %d has the host's %s %s", tid, kind, ids[0])
		case !isGuest && strings.HasPrefix(statusMap(g.guest, g.guest)[kind], ids[0]+" "):
			tr.fail("thread %d has the guest's %s %s", tid, kind, ids[0])
		}
	}
	if groups := strings.Fields(status["Groups"]); os.Geteuid() == 0 && len(groups) > 0 {
		tr.fail("thread %d has groups %v", tid, groups)
	}
}

// checkThreadStatus checks the status of a thread: the filter, the most capabilities that it may have, and other lines.
func (tr *trial) checkThreadStatus(tid int, status map[string]string, most uint64, others map[string]string) {
	for _, want := range []map[string]string{{"NoNewPrivs": "1", "Seccomp": "2"}, others} {
		for name, value := range want {
			if status[name] != value {
				tr.fail("thread %d of %s: %s is %s, want %s", tid, status["Name"], name, status[name], value)
			}
		}
	}
	if caps, err := strconv.ParseUint(status["CapPrm"], 16, 64); err != nil || caps&^most != 0 {
		tr.fail("thread %d of %s has the capabilities %s", tid, status["Name"], status["CapPrm"])
	}
}

const none64 = "0000000000000000"

// checkProcess checks the properties that all threads of a process share.
func (tr *trial) checkProcess(pid int) {
	dir := fmt.Sprintf("/proc/%d/", pid)
	fds, _ := os.ReadDir(dir + "fd")
	for _, fd := range fds {
		if n, _ := strconv.Atoi(fd.Name()); n > 2 {
			link, _ := os.Readlink(dir + "fd/" + fd.Name())
			tr.fail("process %d was given descriptor %d: %s", pid, n, link)
		}
	}
	limits, _ := os.ReadFile(dir + "limits")
	files, pids := fmt.Sprint(sandbox.DefaultLimits.OpenFiles), fmt.Sprint(sandbox.DefaultLimits.Pids)
	for name, want := range map[string]string{"Max core file size": "0", "Max realtime priority": "0",
		"Max nice priority": "0", "Max open files": files, "Max processes": pids} {
		if got := limitOf(string(limits), name); got != want+" "+want {
			tr.fail("process %d: %s is %s, want %s", pid, name, got, want)
		}
	}
	for _, name := range []string{"Max locked memory", "Max pending signals", "Max msgqueue size"} {
		if got := limitOf(string(limits), name); strings.Contains(got, "unlimited") || got == "" {
			tr.fail("process %d: %s is %q", pid, name, got)
		}
	}
	if os.Geteuid() == 0 {
		if score, _ := os.ReadFile(dir + "oom_score_adj"); strings.TrimSpace(string(score)) != "1000" {
			tr.fail("process %d has the out-of-memory score %s", pid, score)
		}
		tr.checkIDMap(pid, "uid_map", true)
	}
	tr.checkEnviron(pid)
}

// checkIDMap checks that an id map of a process does not contain the host's root and, if single, no ranges.
func (tr *trial) checkIDMap(pid int, file string, single bool) {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/%s", pid, file))
	for line := range strings.Lines(string(text)) {
		if f := strings.Fields(line); len(f) != 3 || f[1] == "0" || single && f[2] != "1" {
			tr.fail("process %d maps %s", pid, line)
		}
	}
}

// checkEnviron checks that a process has not inherited this process's environment.
func (tr *trial) checkEnviron(pid int) {
	if env, _ := os.ReadFile(fmt.Sprintf("/proc/%d/environ", pid)); tr.arena.canaries.Found(env) != "" {
		tr.fail("process %d has the server's secret in its environment", pid)
	}
}

// limitOf returns the soft and hard value of a line of /proc/PID/limits.
func limitOf(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if f := strings.Fields(rest); len(f) >= 2 {
				return f[0] + " " + f[1]
			}
		}
	}
	return ""
}

// checkNamespaces checks that a process has namespaces of its own. users includes the user namespace.
func (tr *trial) checkNamespaces(pid int, theirs, ours map[string]string, users bool) {
	for _, kind := range namespaceKinds {
		if (kind != "user" || users) && (theirs[kind] == "" || theirs[kind] == ours[kind]) {
			tr.fail("process %d of the sandbox is in the %s namespace %q, ours is %q", pid, kind, theirs[kind],
				ours[kind])
		}
	}
}

// checkMounts checks the sandbox's mount table as the host sees it.
func (tr *trial) checkMounts(g *sighting) {
	for line := range strings.Lines(g.mounts) {
		before, after, _ := strings.Cut(line, " - ")
		fields, rest := strings.Fields(before), strings.Fields(after)
		if len(fields) < 6 || len(rest) == 0 {
			continue
		}
		options := strings.Split(fields[5], ",")
		// the null device serves as a mask
		device := strings.HasPrefix(fields[4], "/dev/") || strings.HasPrefix(fields[4], "/proc/")
		if !slices.Contains(options, "nosuid") || !device && !slices.Contains(options, "nodev") {
			tr.fail("the mount at %s is %s", fields[4], fields[5])
		}
		if writable := !slices.Contains(options, "ro"); writable && rest[0] != "tmpfs" && rest[0] != "devpts" &&
			!device {
			tr.fail("the mount at %s is writable and lies on %s", fields[4], rest[0])
		}
		if slices.Contains([]string{"cgroup", "cgroup2", "sysfs", "debugfs", "tracefs", "securityfs", "bpf"}, rest[0]) {
			tr.fail("a %s is mounted at %s", rest[0], fields[4])
		}
		if len(fields) > 6 && strings.HasPrefix(fields[6], "shared:") {
			tr.fail("the mount at %s is shared with the host", fields[4])
		}
	}
}

// driveRoot is P07: a root file system made to deceive.
func driveRoot(tr *trial) {
	root := tr.hostileRoot()
	run := tr.request(tr.attack.code)
	run.Spec.Root.Dir = root
	r, err := tr.arena.engine.Run(tr.stepContext(), run)
	if err != nil {
		if kind := sandbox.KindOf(err); kind == sandbox.Internal {
			tr.fail("the root gives an internal error: %v", err)
		}
		tr.note("the root was refused: %v", err)
		return
	}
	tr.searchOutput(r)
	tr.checkBreaches(r)
	if r.Status != sandbox.StatusSucceeded || !strings.Contains(string(r.Stdout.Head), "done") {
		tr.fail("%s: %s %s", r.Status, r.Stdout.Head, r.Stderr.Head)
	}
}

// hostileRoot makes a root with a shell and otherwise misleading content.
func (tr *trial) hostileRoot() string {
	root, remove, err := ownFolder("root-" + tr.nonce)
	tr.need(err)
	tr.later(func() { _ = remove() })
	for _, file := range append(librariesOf(tr, "/bin/bash"), "/bin/bash") {
		text, err := os.ReadFile(file)
		if err == nil {
			err = os.MkdirAll(filepath.Dir(filepath.Join(root, file)), 0o755)
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(root, file), text, 0o755)
		}
		tr.need(err)
	}
	links := map[string]string{"dev": "/proc", "proc": "/sys", "sys": "/etc", "tmp": "/etc",
		"run": tr.arena.canaries.places[0], "workspace": tr.arena.canaries.places[0],
		"home": "/", "var": "../../../..", "root": "/root", "evil": "/etc/shadow"}
	for name, target := range links {
		tr.need(os.Symlink(target, filepath.Join(root, name)))
	}
	tr.need(os.MkdirAll(filepath.Join(root, "etc"), 0o755))
	_ = os.WriteFile(filepath.Join(root, "etc/passwd"), []byte("evil:x:0:0:::\n"), 0o644)
	_ = os.Symlink(tr.arena.canaries.places[0], filepath.Join(root, "etc/ssl"))
	_ = os.Symlink(tr.arena.canaries.files[0], filepath.Join(root, "etc/localtime"))
	return root
}

// librariesOf lists the files that a dynamic program needs, including its loader.
func librariesOf(tr *trial, program string) []string {
	out, err := exec.Command("ldd", program).Output()
	if err != nil {
		tr.giveUp("ldd %s: %v", program, err)
	}
	var all []string
	for _, word := range strings.Fields(string(out)) {
		if strings.HasPrefix(word, "/") {
			all = append(all, word)
		}
	}
	return all
}
