package attack

import (
	"bytes"
	"crypto/sha256"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// hostState holds the programs and settings of the host that no attack may change.
type hostState map[string]string

// clockSlack is how far the host's clocks may drift apart by other causes, such as a time server.
const clockSlack = 5 * time.Second

// readHost reads the state, as far as this user can.
func readHost() hostState {
	h := hostState{}
	for _, file := range []string{"/usr/bin/python3", "/bin/bash", "/usr/bin/bash", "/etc/passwd", "/etc/group",
		"/etc/hosts", "/etc/resolv.conf",
		"/etc/ld.so.cache", "/bin/cat", "/usr/bin/env"} {
		h[file] = sumOf(file)
	}
	for _, knob := range []string{"kernel/core_pattern", "kernel/modprobe", "vm/overcommit_memory", "kernel/hostname",
		"kernel/domainname",
		"net/ipv4/ip_forward", "net/ipv4/ip_unprivileged_port_start", "user/max_user_namespaces", "kernel/shmmax",
		"fs/mqueue/msg_max",
		"kernel/randomize_va_space", "kernel/panic", "kernel/sysrq", "fs/suid_dumpable", "kernel/yama/ptrace_scope"} {
		text, err := os.ReadFile("/proc/sys/" + knob)
		h[setting+knob] = fmt.Sprintf("%q %v", text, err)
	}
	helper, err := os.ReadFile("/sys/kernel/uevent_helper")
	h[setting+"uevent_helper"] = fmt.Sprintf("%q %v", helper, err)
	swaps, _ := os.ReadFile("/proc/swaps")
	h[setting+"swap areas"] = swapAreas(string(swaps))
	h[ourselves] = statusLines(os.Getpid(), os.Getpid(), "Uid", "Gid", "TracerPid", "Seccomp", "NoNewPrivs", "CapEff")
	return h
}

// setting is the prefix of entries that are not files. Only a person or an attack changes them.
const setting = "setting "

// swapAreas returns /proc/swaps without the usage column, which changes all the time.
func swapAreas(table string) string {
	var all []string
	for line := range strings.Lines(table) {
		if f := strings.Fields(line); len(f) == 5 {
			all = append(all, strings.Join(append(f[:3], f[4]), " "))
		}
	}
	return strings.Join(all, "; ")
}

// hostWatch reports each change of the host once.
type hostWatch struct {
	mu    sync.Mutex // guards both below
	state hostState
	clock time.Duration
}

// ourselves is the entry of this process. Only an attack changes it.
const ourselves = "ids of the server"

func watchHost() *hostWatch { return &hostWatch{state: readHost(), clock: clockDistance()} }

// cause is the cause of a change of the host.
type cause int

const (
	byAttack    cause = iota // the kind of change that attacks make
	unexplained              // neither attacks nor the host's normal activity make this change
	byOthers                 // normal activity, such as installing programs and adding users
)

// changed returns the changes since the last call, by cause.
func (w *hostWatch) changed(marker string) map[cause][]string {
	w.mu.Lock()
	defer w.mu.Unlock()
	changes := map[cause][]string{}
	now := readHost()
	for name, was := range w.state {
		if now[name] != was {
			by := causeOf(name, was, now[name], marker)
			changes[by] = append(changes[by], fmt.Sprintf("%s was %s and is %s", name, was, now[name]))
		}
	}
	w.state = now
	if moved := clockDistance() - w.clock; moved.Abs() > clockSlack {
		by := byOthers // a time server
		if time.Now().Year() <= attackYear {
			by = byAttack
		}
		changes[by] = append(changes[by], fmt.Sprintf("its clock was set by %v", moved))
		w.clock += moved
	}
	return changes
}

// Values that attacks set if they can: see N06.
const (
	attackYear = 2000
	attackName = `"pwn`
)

// causeOf returns the cause of a change. Attacks remove or empty a file, change its owner or mode, write canaries, or
// set attackName. Normal activity gives a file other content. A new file or another changed setting is unexplained.
func causeOf(name, was, is, marker string) cause {
	if name == ourselves {
		return byAttack
	}
	if strings.HasPrefix(name, setting) {
		if strings.Contains(is, attackName) {
			return byAttack
		}
		return unexplained
	}
	_, before, wasFile := strings.Cut(was, ", ")
	_, after, _ := strings.Cut(is, ", ")
	text, err := os.ReadFile(name)
	switch {
	case bytes.Contains(text, []byte(marker)), wasFile && (err != nil || len(text) == 0 || before != after):
		return byAttack
	case !wasFile:
		return unexplained
	}
	return byOthers
}

// clockDistance returns the distance between the wall clock and the boot clock, which nothing sets.
func clockDistance() time.Duration {
	var boot unix.Timespec
	_ = unix.ClockGettime(unix.CLOCK_BOOTTIME, &boot)
	return time.Duration(time.Now().UnixNano() - boot.Nano())
}

// largeProgram is the size from which a program is identified by its inode and change time: a checksum of gVisor's
// takes a second.
const largeProgram = 32 << 20

// programOf returns a text that identifies the content of a program.
func programOf(file string) string {
	var st unix.Stat_t
	if err := unix.Stat(file, &st); err != nil || st.Size < largeProgram {
		return sumOf(file)
	}
	return fmt.Sprintf("%d:%d with %d bytes, changed at %d.%d", st.Dev, st.Ino, st.Size, st.Ctim.Sec, st.Ctim.Nsec)
}

const unreadable = "unreadable"

func sumOf(file string) string {
	f, err := os.Open(file)
	if err != nil {
		return unreadable
	}
	defer f.Close()
	sum := sha256.New()
	if _, err := io.Copy(sum, f); err != nil {
		return err.Error()
	}
	info, err := f.Stat()
	if err != nil {
		return err.Error()
	}
	return fmt.Sprintf("%x, %v of user %d", sum.Sum(nil)[:8], info.Mode(), info.Sys().(*syscall.Stat_t).Uid)
}

// statusLines returns the named lines of a thread's status.
func statusLines(pid, tid int, names ...string) string {
	status := statusMap(pid, tid)
	var lines []string
	for _, name := range names {
		if value, ok := status[name]; ok {
			lines = append(lines, name+" "+value)
		}
	}
	return strings.Join(lines, "; ")
}

// statusMap returns the status of a thread by name, empty if it has ended.
func statusMap(pid, tid int) map[string]string {
	text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%d/status", pid, tid))
	all := map[string]string{}
	for line := range strings.Lines(string(text)) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ":")
		all[name] = strings.Join(strings.Fields(value), " ")
	}
	return all
}

// innermost returns the processes that are pid 1 of a sandbox's pid namespaces, by the sandbox's name in their command
// line. On a shared kernel that is the guest; a user-space kernel may have several, none of them the guest. There may
// be none if the host cannot see the backend's processes.
func innermost(id sandbox.ID) []int {
	var all []int
	for _, pid := range pids() {
		line, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", pid))
		if err == nil && bytes.Contains(line, []byte(id)) && strings.HasSuffix(statusLines(pid, pid, "NSpid"), " 1") {
			all = append(all, pid)
		}
	}
	return all
}

func pids() []int           { return numbersIn("/proc") }
func threads(pid int) []int { return numbersIn(fmt.Sprintf("/proc/%d/task", pid)) }

// numbersIn returns the names in a folder that are numbers.
func numbersIn(folder string) (all []int) {
	names, _ := os.ReadDir(folder)
	for _, n := range names {
		if number, err := strconv.Atoi(n.Name()); err == nil {
			all = append(all, number)
		}
	}
	return all
}

// namespaceKinds are the namespaces that each sandbox has.
var namespaceKinds = []string{"user", "mnt", "pid", "net", "ipc", "uts"}

func namespaces(pid int) map[string]string {
	all := map[string]string{}
	for _, kind := range namespaceKinds {
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/%s", pid, kind)); err == nil {
			all[kind] = link
		}
	}
	return all
}

// members returns the processes in the pid namespace of that name.
func members(pidNamespace string) []int {
	var all []int
	for _, pid := range pids() {
		if link, err := os.Readlink(fmt.Sprintf("/proc/%d/ns/pid", pid)); err == nil && link == pidNamespace {
			all = append(all, pid)
		}
	}
	return all
}

// groupFolders returns the control groups named after the sandbox.
func groupFolders(id sandbox.ID) []string { return named("/sys/fs/cgroup", string(id)) }

// groupsOf returns a process's control groups that differ from this process's, for backends without the sandbox's name
// in them.
func groupsOf(pid int) []string {
	ours, _ := os.ReadFile("/proc/self/cgroup")
	theirs, _ := os.ReadFile(fmt.Sprintf("/proc/%d/cgroup", pid))
	var all []string
	for line := range strings.Lines(string(theirs)) {
		_, path, _ := strings.Cut(strings.TrimSpace(line), ":/")
		if name := filepath.Base(path); !strings.Contains(string(ours), line) && len(name) >= leastGroupName {
			all = append(all, named("/sys/fs/cgroup", name)...)
		}
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// leastGroupName is the least length of a container's group name: engines use 32 bytes in hexadecimal.
const leastGroupName = 64

// namedDepth bounds named's depth.
const namedDepth = 8

// named returns the folders and files below top whose name contains the word.
func named(top, word string) []string {
	var all []string
	_ = filepath.WalkDir(top, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil: // it has vanished
		case strings.Contains(d.Name(), word):
			all = append(all, path)
		case d.IsDir() && (strings.Count(path, "/")-strings.Count(top, "/") >= namedDepth ||
			strings.HasPrefix(d.Name(), "go-build")):
			return filepath.SkipDir
		}
		return nil
	})
	return all
}

// limitFiles reads the limits of a sandbox's control groups.
func limitFiles(folders []string) map[string]string {
	limits := map[string]string{}
	for _, folder := range folders {
		for _, name := range []string{"memory.max", "memory.swap.max", "memory.limit_in_bytes",
			"memory.memsw.limit_in_bytes",
			"pids.max", "cpu.max",
			"cpu.cfs_quota_us", "cpu.cfs_period_us"} {
			if text, err := os.ReadFile(filepath.Join(folder, name)); err == nil {
				limits[filepath.Join(folder, name)] = string(text)
			}
		}
	}
	return limits
}
