//go:build linux

package fork_test

import (
	"errors"
	"os"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/fork"
)

// TestSpawn: a process spawned under an identity has it in all ids, without groups, and owns the user namespace made
// with it; the starter's identity is unchanged, and it is the parent.
func TestSpawn(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can be spawned as another")
	}
	if err := syscall.Setgroups([]int{5, 6}); err != nil { // to be left behind
		t.Fatal(err)
	}
	defer syscall.Setgroups(nil)
	const uid, gid = 1879048000, 1879048001 // in no range of slots
	look := "cat /proc/self/status; readlink /proc/self/ns/user; echo parent $PPID"
	field := func(text, name string) string {
		found := regexp.MustCompile(`(?m)^` + name + `:?[ \t]+(.*)$`).FindStringSubmatch(text)
		if found == nil {
			return "none"
		}
		return strings.Join(strings.Fields(found[1]), " ")
	}
	const none = "0000000000000000"
	ours, _ := os.Readlink("/proc/self/ns/user")
	for _, c := range []struct {
		name       string
		namespaces uintptr
		ids        string
	}{
		{"in this user namespace", 0, "1879048000 1879048000 1879048000 1879048000"},
		{"with a namespace that takes the rights of who starts it", unix.CLONE_NEWNS,
			"1879048000 1879048000 1879048000 1879048000"},
		{"in one of its own", unix.CLONE_NEWUSER, "65534 65534 65534 65534"}, // nothing is mapped yet
	} {
		t.Run(c.name, func(t *testing.T) {
			o := shell(t, look)
			o.As, o.Namespaces, o.PIDFD = &fork.Identity{UID: uid, GID: gid}, c.namespaces, false
			before := children(t)
			text := output(t, o)
			if got := field(text, "Uid"); got != c.ids {
				t.Errorf("its ids are %s", got)
			}
			if got := field(text, "Gid"); c.namespaces != unix.CLONE_NEWUSER &&
				got != "1879048001 1879048001 1879048001 1879048001" {
				t.Errorf("its group ids are %s", got)
			}
			if got := field(text, "Groups"); got != "" && got != "none" {
				t.Errorf("it has the groups %s", got)
			}
			for _, set := range []string{"CapInh", "CapPrm", "CapEff", "CapAmb"} {
				if got := field(text, set); got != none {
					t.Errorf("%s is %s", set, got)
				}
			}
			if (c.namespaces != unix.CLONE_NEWUSER) != strings.Contains(text, ours) {
				t.Errorf("of the server's user namespace %s: %s", ours, text)
			}
			if got, want := field(text, "parent"), strconv.Itoa(os.Getpid()); got != want {
				t.Errorf("its parent is %s, not %s", got, want)
			}
			if after := children(t); after != before {
				t.Errorf("children %q, before %q", after, before)
			}
		})
	}
	t.Run("who owns its user namespace", func(t *testing.T) {
		// The owner has all capabilities over it, so only a process spawned as the owner may map its ids.
		o := shell(t, "sleep 60")
		o.As, o.Namespaces, o.PIDFD = &fork.Identity{UID: uid, GID: gid}, unix.CLONE_NEWUSER, true
		pid, pidfd, err := o.Start()
		if err != nil {
			t.Fatal(err)
		}
		defer unix.Close(pidfd)
		defer wait(t, pid)
		defer unix.PidfdSendSignal(pidfd, unix.SIGKILL, nil, 0)
		ns, err := os.Open("/proc/" + strconv.Itoa(pid) + "/ns/user")
		if err != nil {
			t.Fatal(err)
		}
		defer ns.Close()
		owner, err := unix.IoctlGetInt(int(ns.Fd()), unix.NS_GET_OWNER_UID)
		if err != nil || owner != uid {
			t.Errorf("it is owned by %d, %v", owner, err)
		}
		var st unix.Stat_t
		if err := unix.Stat("/proc/"+strconv.Itoa(pid), &st); err != nil || st.Uid != uid && st.Uid != 0 {
			t.Errorf("it is %d's, %v", st.Uid, err)
		}
	})
	t.Run("this process stays who it is", func(t *testing.T) {
		text, _ := os.ReadFile("/proc/thread-self/status")
		if got := field(string(text), "Uid"); got != "0 0 0 0" {
			t.Errorf("the ids are %s", got)
		}
		if keep, err := unix.PrctlRetInt(unix.PR_GET_KEEPCAPS, 0, 0, 0, 0); err != nil || keep != 0 {
			t.Errorf("it keeps capabilities: %d, %v", keep, err)
		}
		if groups, err := unix.Getgroups(); err != nil || len(groups) != 2 {
			t.Errorf("groups %v, %v", groups, err)
		}
	})
}

// TestSpawnFails: after a failure neither a maker nor a process is left, and the error names the step.
func TestSpawnFails(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("SKIPPED, NOT TESTED: only root can be spawned as another")
	}
	who := &fork.Identity{UID: 1879048000, GID: 1879048001}
	for _, c := range []struct {
		step  fork.Step
		errno error
		spoil func(o *fork.Order)
	}{
		{fork.Fork, unix.EBADF, func(o *fork.Order) { o.Cgroup = o.Files[0] }},
		{fork.Fork, unix.EINVAL, func(o *fork.Order) { o.Namespaces = unix.CLONE_NEWNS | unix.CLONE_FS }},
		{fork.Execute, unix.ENOENT, func(o *fork.Order) { o.Paths = []string{"/no/such/program"} }},
		{fork.Directory, unix.ENOENT, func(o *fork.Order) { o.Dir = "/no/such/folder" }},
	} {
		o := shell(t, "exit 0")
		o.As, o.PIDFD = who, true
		c.spoil(o)
		before, had := children(t), descriptors(t)
		pid, pidfd, err := o.Start()
		var e *fork.Error
		if !errors.As(err, &e) || e.Step != c.step || !errors.Is(err, c.errno) || pid != -1 || pidfd != -1 {
			t.Errorf("%s: got %d, %d, %v", c.step, pid, pidfd, err)
			if err == nil {
				wait(t, pid)
				unix.Close(pidfd)
			}
		}
		if after := children(t); after != before {
			t.Errorf("%s: children %q, before %q", c.step, after, before)
		}
		if now := descriptors(t); now != had {
			t.Errorf("%s: descriptors\n%s\nbefore\n%s", c.step, now, had)
		}
	}
}
