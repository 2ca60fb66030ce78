package backendtest

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/server"
	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// fakeGuest is the variable that makes the test binary a guest; its value is the plan.
const fakeGuest = "FUMEHOOD_FAKE_GUEST"

// canFake is true if this binary can be executed as a guest.
var canFake bool

// Descriptors of a fake guest.
const (
	fakeListenFD = 3 + iota
	fakeLifelineFD
	fakeReadyFD
)

// fakePlan is a fake guest's plan.
type fakePlan struct {
	ID        sandbox.ID
	Key       [guest.KeySize]byte
	User      sandbox.User
	Workspace string
	Mounts    []sandbox.Mount
	Disk      int64
	Inodes    int64
	OpenFiles int64
}

// Main is the TestMain of a package that uses Fake: func TestMain(m *testing.M) { backendtest.Main(m) }
func Main(m *testing.M) {
	Become()
	os.Exit(m.Run())
}

// Become is the first step of Main, for a package with its own TestMain: in a guest process of Fake, it serves and
// never returns.
func Become() {
	canFake = true
	plan := os.Getenv(fakeGuest)
	if plan == "" {
		return
	}
	if err := serveFake(plan); err != nil {
		fmt.Fprintln(os.Stderr, "fake guest:", err)
		os.Exit(1)
	}
	os.Exit(0)
}

// serveFake runs as pid 1 of a fake box.
func serveFake(text string) error {
	var plan fakePlan
	if err := json.Unmarshal([]byte(text), &plan); err != nil {
		return err
	}
	os.Clearenv()
	if err := enterFakeRoot(&plan); err != nil {
		return err
	}
	if err := raiseLoopback(); err != nil {
		return err
	}
	for _, fd := range []int{fakeListenFD, fakeLifelineFD, fakeReadyFD} {
		syscall.CloseOnExec(fd)
	}
	for _, fd := range []int{fakeListenFD, fakeLifelineFD} {
		if err := syscall.SetNonblock(fd, true); err != nil {
			return err
		}
	}
	s, err := server.New(server.Config{
		Key:      plan.Key,
		ID:       string(plan.ID),
		User:     plan.User,
		Init:     true,
		Lifeline: os.NewFile(fakeLifelineFD, "lifeline"),
		Spawner:  dropCapabilities,
		Limits:   []guest.Rlimit{{Resource: unix.RLIMIT_NOFILE, Value: uint64(plan.OpenFiles)}},
	})
	if err != nil {
		return err
	}
	served := make(chan error, 1)
	go func() { served <- s.Serve(os.NewFile(fakeListenFD, "listener")) }()
	ready := os.NewFile(fakeReadyFD, "ready")
	if _, err := ready.Write([]byte{1}); err != nil {
		return err
	}
	ready.Close()
	s.Wait()
	return <-served
}

func raiseLoopback() error {
	s, err := unix.Socket(unix.AF_INET, unix.SOCK_DGRAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	defer unix.Close(s)
	lo, err := unix.NewIfreq("lo")
	if err != nil {
		return fmt.Errorf("raise loopback: %w", err)
	}
	lo.SetUint16(unix.IFF_UP | unix.IFF_RUNNING)
	return unix.IoctlIfreq(s, unix.SIOCSIFFLAGS, lo)
}

// enterFakeRoot makes a root of one limited tmpfs with the host's system directories, read-only, and enters it.
func enterFakeRoot(plan *fakePlan) error {
	const base = "/tmp"
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		return fmt.Errorf("make / private: %w", err)
	}
	sources, err := openSources(plan) // before they are covered
	if err != nil {
		return err
	}
	options := fmt.Sprintf("mode=0755,size=%d,nr_inodes=%d", plan.Disk, plan.Inodes+64)
	if err := unix.Mount("root", base, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount a tmpfs: %w", err)
	}
	for _, dir := range []string{sandbox.Workspace, sandbox.Home, "/tmp", "/proc"} {
		if err := os.MkdirAll(base+dir, 0o777); err != nil {
			return err
		}
	}
	for _, s := range sources {
		if err := s.attach(base); err != nil {
			return fmt.Errorf("mount %s: %w", s.target, err)
		}
	}
	if err := unix.Mount("shm", base+"/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, options); err != nil {
		return fmt.Errorf("mount /dev/shm: %w", err)
	}
	if err := unix.Mount("proc", base+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, ""); err != nil {
		return fmt.Errorf("mount /proc: %w", err)
	}
	if err := unix.Chdir(base); err != nil {
		return err
	}
	if err := unix.PivotRoot(".", "."); err != nil {
		return fmt.Errorf("pivot_root: %w", err)
	}
	if err := unix.Unmount(".", unix.MNT_DETACH); err != nil {
		return fmt.Errorf("detach the old root: %w", err)
	}
	return unix.Chdir("/")
}

// source is a host tree for a fake root.
type source struct {
	fd       int
	target   string
	link     string // target, if the host has a link there
	folder   bool
	writable bool
}

func openSources(plan *fakePlan) ([]source, error) {
	var out []source
	for _, dir := range []string{"/usr", "/bin", "/sbin", "/lib", "/lib32", "/lib64", "/libx32", "/etc", "/dev"} {
		if link, err := os.Readlink(dir); err == nil {
			out = append(out, source{fd: -1, target: dir, link: link})
			continue
		}
		s, err := openSource(dir, dir, dir == "/dev")
		if os.IsNotExist(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	mounts := plan.Mounts
	if plan.Workspace != "" {
		mounts = append(mounts, sandbox.Mount{Source: plan.Workspace, Target: sandbox.Workspace, Writable: true})
	}
	for _, m := range mounts {
		if _, err := nolink.Stat(m.Source); err != nil {
			return nil, err
		}
		s, err := openSource(m.Source, m.Target, m.Writable)
		if err != nil {
			return nil, err
		}
		out = append(out, s)
	}
	return out, nil
}

func openSource(path, target string, writable bool) (source, error) {
	info, err := os.Stat(path)
	if err != nil {
		return source{}, err
	}
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return source{}, fmt.Errorf("open %s: %w", path, err)
	}
	return source{fd: fd, target: target, folder: info.IsDir(), writable: writable}, nil
}

func (s *source) attach(base string) error {
	path := base + s.target
	if s.link != "" {
		return os.Symlink(s.link, path)
	}
	defer unix.Close(s.fd)
	if s.folder {
		if err := os.MkdirAll(path, 0o755); err != nil {
			return err
		}
	} else {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, nil, 0o644); err != nil {
			return err
		}
	}
	if !s.writable {
		attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY}
		if err := unix.MountSetattr(s.fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr); err != nil {
			return err
		}
	}
	return unix.MoveMount(s.fd, "", unix.AT_FDCWD, path, unix.MOVE_MOUNT_F_EMPTY_PATH)
}

// dropCapabilities drops all capabilities of the calling thread and its children.
func dropCapabilities() error {
	if err := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err != nil {
		return err
	}
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var none [2]unix.CapUserData
	_, _, errno := unix.RawSyscall(unix.SYS_CAPSET, uintptr(unsafe.Pointer(&header)), uintptr(unsafe.Pointer(&none)), 0)
	if errno != 0 {
		return errno
	}
	return unix.Prctl(unix.PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0)
}
