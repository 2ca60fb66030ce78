//go:build linux

package fork_test

import (
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/fork"
)

func TestMain(m *testing.M) {
	signal.Ignore(syscall.SIGUSR1) // before the first start: no child may be spawned with it ignored
	os.Exit(m.Run())
}

// shell is an order for a script, without a control group and with the null device for everything.
func shell(t testing.TB, script string) *fork.Order {
	t.Helper()
	null, err := os.OpenFile(os.DevNull, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { null.Close() })
	fd := int(null.Fd())
	return &fork.Order{Paths: []string{"/bin/sh"}, Argv: []string{"sh", "-c", script},
		Env:   []string{"PATH=/usr/bin:/bin"},
		Dir:   "/",
		Files: []int{fd, fd, fd}}
}

// output starts the order with descriptor 1 as a pipe and returns the program's output. It must exit with 0.
func output(t testing.TB, o *fork.Order) string {
	t.Helper()
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	o.Files[1] = int(w.Fd())
	pid, _, err := o.Start()
	w.Close()
	if err != nil {
		t.Fatal(err)
	}
	text, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if ws := wait(t, pid); ws.ExitStatus() != 0 {
		t.Fatalf("ended with %#x, wrote %q", ws, text)
	}
	return strings.TrimSpace(string(text))
}

func wait(t testing.TB, pid int) (ws syscall.WaitStatus) {
	t.Helper()
	for {
		if _, err := syscall.Wait4(pid, &ws, 0, nil); err == nil {
			return ws
		} else if err != syscall.EINTR {
			t.Fatal(err)
		}
	}
}

// children lists this process's children; its executor may have left it some.
func children(t testing.TB) (pids string) {
	t.Helper()
	threads, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil || len(threads) == 0 {
		t.Fatalf("no threads: %v", err)
	}
	for _, path := range threads {
		text, _ := os.ReadFile(path) // a thread may have ended
		pids += string(text)
	}
	return pids
}

func descriptors(t testing.TB) string {
	t.Helper()
	entries, err := os.ReadDir("/proc/self/fd")
	if err != nil {
		t.Fatal(err)
	}
	var all []string
	for _, e := range entries {
		to, err := os.Readlink("/proc/self/fd/" + e.Name())
		if err == nil && !strings.HasPrefix(to, "/proc/") {
			all = append(all, e.Name()+" "+to)
		}
	}
	return strings.Join(all, "\n")
}

// TestEveryStepFails makes each possible step fail: the error names it and the errno, and neither a child nor a
// descriptor is left.
func TestEveryStepFails(t *testing.T) {
	// What root may do without a user namespace fails in a namespace without ids.
	other := uintptr(unix.CLONE_NEWUSER)
	denied := []error{unix.EPERM, unix.EINVAL}
	if os.Geteuid() != 0 {
		other = 0
	}
	const noChange = ^uint32(0) // setresgid(2): leaves the id as it is
	stranger := uint32(os.Geteuid()) + 12345
	for _, c := range []struct {
		step   fork.Step
		errnos []error
		spoil  func(o *fork.Order)
	}{
		{fork.Fork, []error{unix.EBADF}, func(o *fork.Order) { o.Cgroup = o.Files[0] }},
		{fork.Enter, []error{unix.EBADF}, func(o *fork.Order) { o.Tasks = []int{readOnly(t)} }},
		{fork.Privileges, []error{unix.EINVAL, unix.EPERM}, func(o *fork.Order) { o.Ambient = []uintptr{63} }},
		{fork.Descriptors, []error{unix.EBADF}, func(o *fork.Order) { o.Files = append(o.Files, 1<<29) }},
		{fork.Terminal, []error{unix.ENOTTY}, func(o *fork.Order) { o.TTY = true }},
		{fork.Limits, []error{unix.EINVAL}, func(o *fork.Order) { o.Limits = []fork.Limit{{Resource: 99, Value: 1}} }},
		{fork.Groups, denied, func(o *fork.Order) {
			o.Become, o.Namespaces = &fork.Identity{UID: stranger, GID: stranger},
				other
		}},
		{fork.Group, denied, func(o *fork.Order) {
			o.Become, o.Namespaces = &fork.Identity{UID: stranger, GID: stranger, KeepGroups: true}, other
		}},
		{fork.User, denied, func(o *fork.Order) {
			o.Become, o.Namespaces = &fork.Identity{UID: stranger, GID: noChange, KeepGroups: true}, other
		}},
		{fork.Directory, []error{unix.ENOENT}, func(o *fork.Order) { o.Dir = "/no/such/folder" }},
		{fork.Execute, []error{unix.ENOENT}, func(o *fork.Order) { o.Paths = []string{"/no/such/program"} }},
		{fork.Execute, []error{unix.ENOENT}, func(o *fork.Order) { o.Paths = nil }},
	} {
		fails := func(t *testing.T, copied bool) {
			o := shell(t, "exit 0")
			o.PIDFD, o.Copy = true, copied
			c.spoil(o)
			before, spawned := descriptors(t), children(t)
			pid, pidfd, err := o.Start()
			if pid != -1 || pidfd != -1 {
				t.Errorf("got pid %d, pidfd %d", pid, pidfd)
			}
			var e *fork.Error
			if !errors.As(err, &e) || e.Step != c.step {
				t.Fatalf("got %v, want the step %q", err, c.step)
			}
			if !oneOf(err, c.errnos) || err.Error() != c.step.String()+": "+e.Errno.Error() {
				t.Errorf("got %q", err)
			}
			if left := children(t); left != spawned {
				t.Errorf("children before: %s, after: %s", spawned, left)
			}
			if after := descriptors(t); after != before {
				t.Errorf("descriptors before:\n%s\nafter:\n%s", before, after)
			}
		}
		t.Run(c.step.String(), func(t *testing.T) { fails(t, false) })
		t.Run(c.step.String()+", memory of its own", func(t *testing.T) { fails(t, true) })
	}
}

func oneOf(err error, want []error) bool {
	for _, w := range want {
		if errors.Is(err, w) {
			return true
		}
	}
	return false
}

func readOnly(t testing.TB) int {
	t.Helper()
	f, err := os.Open(os.DevNull)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return int(f.Fd())
}

// TestMounts: a child sees the mounts of its given namespace, and its program by descriptor only; without such a
// namespace it is not spawned.
func TestMounts(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("joining a mount namespace needs root")
	}
	holder := shell(t, "mount --make-rprivate /; mount -t tmpfs none /mnt; : >/mnt/joined; mount -t tmpfs none /proc; echo >&3; read x <&4")
	holder.Namespaces = unix.CLONE_NEWNS
	ready, stay := [2]int{}, [2]int{}
	if err := errors.Join(unix.Pipe2(ready[:], unix.O_CLOEXEC), unix.Pipe2(stay[:], unix.O_CLOEXEC)); err != nil {
		t.Fatal(err)
	}
	holder.Files = append(holder.Files, ready[1], stay[0])
	pid, _, err := holder.Start()
	if err != nil {
		t.Fatal(err)
	}
	unix.Close(ready[1])
	if _, err := unix.Read(ready[0], make([]byte, 1)); err != nil {
		t.Error(err)
	}
	mounts, err := os.Open(fmt.Sprintf("/proc/%d/ns/mnt", pid))
	unix.Close(stay[1])
	wait(t, pid)
	if err != nil {
		t.Fatal(err)
	}
	defer mounts.Close()
	defer unix.Close(ready[0])
	defer unix.Close(stay[0])
	program, err := os.Open("/bin/sh")
	if err != nil {
		t.Fatal(err)
	}
	defer program.Close()
	o := shell(t, "echo /mnt/* /proc/*")
	o.Files = append(o.Files, int(program.Fd()))
	o.Paths, o.Program, o.Mounts, o.Namespaces = nil, 3, int(mounts.Fd()), unix.CLONE_NEWUSER|unix.CLONE_NEWNS
	o.As = &fork.Identity{UID: 65534, GID: 65534}
	if got := output(t, o); got != "/mnt/joined /proc/*" {
		t.Errorf("got %q", got)
	}
	before := children(t)
	o.Mounts = o.Files[0]
	var e *fork.Error
	if _, _, err := o.Start(); !errors.As(err, &e) || e.Step != fork.Mounts || e.Errno != unix.EINVAL {
		t.Errorf("got %v", err)
	}
	o.As = nil
	if _, _, err := o.Start(); err == nil {
		t.Error("mounts that nobody joins were accepted")
	}
	if left := children(t); left != before {
		t.Errorf("children before: %s, after: %s", before, left)
	}
}

// TestNUL: strings that the kernel would truncate are refused before there is a child.
func TestNUL(t *testing.T) {
	for name, spoil := range map[string]func(o *fork.Order){
		"argument":    func(o *fork.Order) { o.Argv = []string{"sh\x00"} },
		"environment": func(o *fork.Order) { o.Env = []string{"A=\x00"} },
		"directory":   func(o *fork.Order) { o.Dir = "/\x00" },
		"program":     func(o *fork.Order) { o.Paths = []string{"/bin/sh\x00"} },
	} {
		o := shell(t, "exit 0")
		spoil(o)
		var e *fork.Error
		if _, _, err := o.Start(); err == nil || errors.As(err, &e) || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// TestSearch looks for the program like execvp(3): missing files and files that may not be executed are skipped, and a
// refusal is reported rather than the last folder's ENOENT.
func TestSearch(t *testing.T) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	script := func(name, text string, mode os.FileMode) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(text), mode); err != nil {
			t.Fatal(err)
		}
		return path
	}
	const missing, notFolder = "/no/such/program", "/dev/null/program"
	denied := script("denied", "#!/bin/sh\necho denied\n", 0o644)
	garbage := script("garbage", "neither ELF nor script", 0o755)
	first := script("first", "#!/bin/sh\necho first\n", 0o755)
	second := script("second", "#!/bin/sh\necho second\n", 0o755)
	for _, c := range []struct {
		paths []string
		want  string
		errno syscall.Errno
	}{
		{[]string{first, second}, "first", 0},
		{[]string{missing, notFolder, denied, second, first}, "second", 0},
		{[]string{missing, denied, notFolder, missing}, "", syscall.EACCES},
		{[]string{denied, missing}, "", syscall.EACCES},
		{[]string{missing, notFolder}, "", syscall.ENOTDIR},
		{[]string{garbage, first}, "", syscall.ENOEXEC},
	} {
		o := shell(t, "")
		o.Paths = c.paths
		if c.errno == 0 {
			if got := output(t, o); got != c.want {
				t.Errorf("%v: got %q", c.paths, got)
			}
			continue
		}
		var e *fork.Error
		if _, _, err := o.Start(); !errors.As(err, &e) || e.Step != fork.Execute || e.Errno != c.errno {
			t.Errorf("%v: got %v, want %v", c.paths, err, c.errno)
		}
	}
}

// TestFiles gives descriptors in an order in which each would be overwritten by another, and some twice. The child has
// exactly these, and no inheritable one.
func TestFiles(t *testing.T) {
	leak, err := unix.Open("/etc/passwd", unix.O_RDONLY, 0) // without O_CLOEXEC
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(leak)
	dir := t.TempDir()
	var fds []int
	for i := range 8 {
		f, err := os.Create(filepath.Join(dir, strconv.Itoa(i)))
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		fds = append(fds, int(f.Fd()))
	}
	o := shell(t, "ls -v /proc/$$/fd; for n in 3 4 5 6 7 8 9 10 11 12; do readlink /proc/$$/fd/$n; done")
	null := o.Files[0]
	for i := range fds { // the other way round, and with a space
		o.Files = append(o.Files, fds[len(fds)-1-i])
	}
	o.Files = append(o.Files, fds[0], null)
	if least := min(fds[0], null); least >= len(o.Files) {
		t.Fatalf("no descriptor is below %d: the test proves nothing", len(o.Files))
	}
	before := descriptors(t)
	lines := strings.Split(output(t, o), "\n")
	if after := descriptors(t); after != before {
		t.Errorf("descriptors before:\n%s\nafter:\n%s", before, after)
	}
	var want []string
	for n := range o.Files {
		want = append(want, strconv.Itoa(n))
	}
	for _, n := range []int{7, 6, 5, 4, 3, 2, 1, 0, 0} {
		want = append(want, filepath.Join(dir, strconv.Itoa(n)))
	}
	want = append(want, os.DevNull)
	if strings.Join(lines, "\n") != strings.Join(want, "\n") {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(lines, "\n"), strings.Join(want, "\n"))
	}
}

// TestBirth examines a child from inside: signals, session, directory, environment, limits.
func TestBirth(t *testing.T) {
	o := shell(t, "grep -E '^Sig(Blk|Ign):' /proc/self/status; cut -d' ' -f5,6 /proc/$$/stat; echo $$ $$; pwd; "+
		"echo \"$A $HOME\"; ulimit -Hn; ulimit -Sn; ulimit -f")
	o.Dir = "/usr"
	o.Env = []string{"PATH=/usr/bin:/bin", "A=b c"}
	o.Limits = []fork.Limit{{Resource: unix.RLIMIT_NOFILE, Value: 77}, {Resource: unix.RLIMIT_FSIZE, Value: 0}}
	got := strings.Split(output(t, o), "\n")
	if len(got) != 9 {
		t.Fatalf("got %q", got)
	}
	const none = "\t0000000000000000"
	want := []string{"SigBlk:" + none, "SigIgn:" + none, got[3], got[3], "/usr", "b c ", "77", "77", "0"}
	if strings.Join(got, "\n") != strings.Join(want, "\n") {
		t.Errorf("got  %q\nwant %q", got, want)
	}
}

// TestPIDFD: the pidfd is the child's, and close-on-exec.
func TestPIDFD(t *testing.T) {
	o := shell(t, "exit 3")
	o.PIDFD = true
	pid, pidfd, err := o.Start()
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(pidfd)
	flags, err := unix.FcntlInt(uintptr(pidfd), unix.F_GETFD, 0)
	if err != nil || flags&unix.FD_CLOEXEC == 0 {
		t.Errorf("flags %#x, %v", flags, err)
	}
	info, err := os.ReadFile(fmt.Sprintf("/proc/self/fdinfo/%d", pidfd))
	if err != nil || !strings.Contains(string(info), fmt.Sprintf("\nPid:\t%d\n", pid)) {
		t.Errorf("pid %d, but %s, %v", pid, info, err)
	}
	if ws := wait(t, pid); ws.ExitStatus() != 3 {
		t.Errorf("got %#x", ws)
	}
	o.PIDFD = false
	pid, pidfd, err = o.Start()
	if err != nil || pidfd != -1 {
		t.Errorf("not asked for: %d, %v", pidfd, err)
	}
	wait(t, pid)
}

// TestTerminal: descriptor 0 is the terminal of the new session.
func TestTerminal(t *testing.T) {
	ptmx, err := os.OpenFile("/dev/ptmx", os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer ptmx.Close()
	if err := unix.IoctlSetPointerInt(int(ptmx.Fd()), unix.TIOCSPTLCK, 0); err != nil {
		t.Fatal(err)
	}
	n, err := unix.IoctlGetInt(int(ptmx.Fd()), unix.TIOCGPTN)
	if err != nil {
		t.Fatal(err)
	}
	tty, err := os.OpenFile("/dev/pts/"+strconv.Itoa(n), os.O_RDWR|unix.O_NOCTTY, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer tty.Close()
	o := shell(t, "readlink /proc/$$/fd/0; cut -d' ' -f7,8 /proc/$$/stat; echo $$; : </dev/tty && echo controlled")
	o.Files[0], o.TTY = int(tty.Fd()), true
	got := strings.Split(output(t, o), "\n")
	if len(got) != 4 || got[0] != tty.Name() || got[3] != "controlled" || strings.HasPrefix(got[1], "0 ") ||
		!strings.HasSuffix(got[1], " "+got[2]) {
		t.Errorf("got %q", got)
	}
}

// TestIdentity: all ids are the new ones, and no group or capability of root's is left.
func TestIdentity(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root becomes another")
	}
	script := "grep -E '^(Uid|Gid|Groups|Cap(Prm|Eff|Amb)):' /proc/self/status | tr -s '\\t ' ' '"
	o := shell(t, script)
	o.Become = &fork.Identity{UID: 4321, GID: 5432}
	const want = "Uid: 4321 4321 4321 4321\nGid: 5432 5432 5432 5432\nGroups: \nCapPrm: 0000000000000000\nCapEff: 0000000000000000\nCapAmb: 0000000000000000"
	if got := output(t, o); got != want {
		t.Errorf("got\n%s", got)
	}
	groups, err := os.Getgroups()
	if err != nil {
		t.Fatal(err)
	}
	o = shell(t, "grep ^Groups: /proc/self/status | wc -w")
	o.Become = &fork.Identity{UID: 4321, GID: 5432, KeepGroups: true}
	if got := output(t, o); got != strconv.Itoa(1+len(groups)) {
		t.Errorf("%s words in the line of groups, want 1 and %d", got, len(groups))
	}
}

// TestNamespaces: the first process of a new user namespace is unmapped there, and keeps only the requested
// capabilities.
func TestNamespaces(t *testing.T) {
	o := shell(t, "grep ^CapEff: /proc/self/status; echo $$; id -u")
	o.Namespaces = unix.CLONE_NEWUSER | unix.CLONE_NEWPID
	o.Ambient = []uintptr{unix.CAP_SYS_ADMIN, unix.CAP_MAC_ADMIN} // one in each word of the kernel's two
	pid, _, err := o.Start()
	if errors.Is(err, unix.EPERM) && os.Geteuid() != 0 {
		t.Skip("this host keeps ordinary users from user namespaces")
	}
	if err != nil {
		t.Fatal(err)
	}
	wait(t, pid)
	want := fmt.Sprintf("CapEff:\t%016x\n1\n65534", uint64(1)<<unix.CAP_SYS_ADMIN|uint64(1)<<unix.CAP_MAC_ADMIN)
	if got := output(t, o); got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}
