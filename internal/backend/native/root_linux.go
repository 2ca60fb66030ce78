package native

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/guest/confine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// hostDirs are the folders of the host that make up the default root.
var hostDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// ownDirs are the top-level folders that every sandbox has of its own; a root's own folders of these names are not shown.
var ownDirs = []string{"dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var", "workspace", "mnt", "media", "lost+found", "boot", "srv"}

// etcShown are the entries of /etc that programs need and that hold nothing about this host or its users: where the dynamic
// linker and Debian's alternatives point to, certificates of public authorities, fonts, time zone, and tables of numbers. Each costs
// some 40 microseconds at every start, so what few programs miss is left out.
var etcShown = []string{"alternatives", "ld.so.cache", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted",
	"crypto-policies", "fonts", "localtime", "mime.types", "magic", "protocols", "services", "os-release", "java-17-openjdk",
	"java-21-openjdk", "matplotlibrc", "R"}

const (
	passwd = "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:" + sandbox.Home +
		":/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	group    = "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n"
	hostname = "sandbox"
	hosts    = "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	nsswitch = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
)

// systemSteps are the steps that show a root file system: its top-level folders, read-only, and of its /etc what is shown. dir is
// "/" for the host itself. The folder may be hostile: its links are copied as links, never followed here.
func systemSteps(dir string) ([]confine.Step, error) {
	names := hostDirs
	if dir != "/" {
		entries, err := os.ReadDir(dir)
		if err != nil {
			return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "root " + dir, Err: err}
		}
		names = nil
		for _, e := range entries {
			if !slices.Contains(ownDirs, e.Name()) {
				names = append(names, e.Name())
			}
		}
	}
	var steps []confine.Step
	for _, name := range names {
		s, err := show(filepath.Join(dir, name), name)
		if errors.Is(err, fs.ErrNotExist) {
			continue
		}
		if err != nil {
			return nil, err
		}
		steps = append(steps, s...)
	}
	if len(steps) == 0 {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "root " + dir, Msg: "holds no root file system: no /usr, /bin or /lib"}
	}
	etc, err := etcSteps(dir)
	return append(steps, etc...), err
}

// show is the step that makes one entry visible: links as links, folders and files as mounts, other things not at all.
func show(source, target string) ([]confine.Step, error) {
	info, err := os.Lstat(source)
	if err != nil {
		return nil, err
	}
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		to, err := os.Readlink(source)
		return []confine.Step{{Do: confine.Symlink, Target: target, Source: to}}, err
	case fs.ModeDir, 0:
		return []confine.Step{{Do: confine.Bind, Target: target, Source: source}}, nil
	}
	return nil, nil
}

func etcSteps(dir string) ([]confine.Step, error) {
	file := func(name, content string) confine.Step {
		return confine.Step{Do: confine.File, Target: "etc/" + name, Source: content, Mode: 0o644}
	}
	steps := []confine.Step{
		{Do: confine.Dir, Target: "etc", Mode: 0o755},
		file("passwd", passwd), file("group", group), file("hostname", hostname+"\n"), file("hosts", hosts),
		file("nsswitch.conf", nsswitch), file("resolv.conf", ""), file("host.conf", "multi on\n"),
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	for _, name := range etcShown {
		// os.Root follows no link out of the folder, so a root of a stranger cannot make us look at the host.
		if _, err := root.Lstat(path.Join("etc", name)); err != nil {
			continue
		}
		s, err := show(filepath.Join(dir, "etc", name), "etc/"+name)
		if err != nil {
			return nil, err
		}
		steps = append(steps, s...)
	}
	return steps, nil
}

// deviceSteps are /dev: the five devices that hold nothing, the terminal, and links.
func deviceSteps() []confine.Step {
	steps := []confine.Step{{Do: confine.Dir, Target: "dev", Mode: 0o755}}
	for _, d := range []struct {
		name         string
		major, minor uint32
	}{{"null", 1, 3}, {"zero", 1, 5}, {"full", 1, 7}, {"random", 1, 8}, {"urandom", 1, 9}, {"tty", 5, 0}} {
		steps = append(steps, confine.Step{Do: confine.Device, Target: "dev/" + d.name, Source: "/dev/" + d.name,
			Size: int64(unix.Mkdev(d.major, d.minor))})
	}
	link := func(name, to string) confine.Step {
		return confine.Step{Do: confine.Symlink, Target: "dev/" + name, Source: to}
	}
	return append(steps,
		link("ptmx", "pts/ptmx"), link("fd", "/proc/self/fd"), link("stdin", "/proc/self/fd/0"),
		link("stdout", "/proc/self/fd/1"), link("stderr", "/proc/self/fd/2"))
}

// placeSteps are the folders where the sandbox's own file systems go.
func placeSteps() []confine.Step {
	dir := func(target string, mode uint32) confine.Step {
		return confine.Step{Do: confine.Dir, Target: strings.TrimPrefix(target, "/"), Mode: mode}
	}
	steps := []confine.Step{dir("proc", 0o555), dir(emptyDir, 0o755), dir("dev/pts", 0o755), dir("home", 0o755), dir("var", 0o755),
		{Do: confine.Symlink, Target: "var/tmp", Source: "/tmp"}}
	for _, w := range writablePlaces {
		steps = append(steps, dir(w.target, 0o755))
	}
	return steps
}

// The masks hide what of /proc tells about the host or reaches into it: the list of the container runtimes, and the kernel's command
// line and configuration. What only the host's root may read (mode 0400) the kernel hides itself, as nobody inside is that; and all
// of /proc is read-only besides.
var (
	maskedFiles = []string{"cmdline", "config.gz", "interrupts", "kallsyms", "kcore", "key-users", "keys", "latency_stats", "modules",
		"sched_debug", "timer_list", "timer_stats"}
	maskedDirs = []string{"acpi", "asound", "bus", "driver", "fs", "irq", "scsi"}
)

// kernelSteps are what the kernel shows of the sandbox's own namespaces: its terminals and /proc.
func kernelSteps(guestGID uint32) []confine.Step {
	steps := []confine.Step{
		{Do: confine.Devpts, Target: "dev/pts"},
		{Do: confine.Proc, Target: "proc", GID: guestGID},
	}
	for _, name := range maskedFiles {
		steps = append(steps, confine.Step{Do: confine.Mask, Target: "proc/" + name, Source: "dev/null"})
	}
	for _, name := range maskedDirs {
		steps = append(steps, confine.Step{Do: confine.Mask, Target: "proc/" + name, Source: emptyDir})
	}
	return steps
}

// emptyDir is a folder of the new root that is empty and read-only in the end. diskDir is where the bounded file system that holds all
// writable places is attached while these are made.
const (
	emptyDir = "run"
	diskDir  = emptyDir
)

// writablePlaces lie on one bounded file system, so that the disk limit is one number whatever the code fills.
var writablePlaces = []struct {
	name, target string
	mode         uint32
	owned        bool // by the code's user
	flags        confine.Flags
}{
	{"workspace", sandbox.Workspace, 0o755, true, confine.Writable},
	{"home", sandbox.Home, 0o700, true, confine.Writable},
	{"tmp", "/tmp", 0o1777, false, confine.Writable},
	{"shm", "/dev/shm", 0o1777, false, confine.Writable | confine.NoExec},
}

// writableSteps make the writable places. The workspace is left out where a host directory takes its place. With noExec nothing in
// them can be executed.
func writableSteps(l sandbox.Limits, code sandbox.User, hostWorkdir, noExec bool) []confine.Step {
	steps := []confine.Step{{Do: confine.Tmpfs, Target: diskDir, Mode: 0o755, Size: l.DiskBytes, Inodes: l.Inodes}}
	for _, w := range writablePlaces {
		if hostWorkdir && w.target == sandbox.Workspace {
			continue
		}
		dir := confine.Step{Do: confine.Dir, Target: diskDir + "/" + w.name, Mode: w.mode}
		if w.owned {
			dir.UID, dir.GID = code.UID, code.GID
		}
		inner := confine.Step{Do: confine.Inner, Target: strings.TrimPrefix(w.target, "/"), Source: dir.Target, Flags: w.flags}
		if noExec {
			inner.Flags |= confine.NoExec
		}
		steps = append(steps, dir, inner)
	}
	return append(steps, confine.Step{Do: confine.Detach, Target: diskDir})
}
