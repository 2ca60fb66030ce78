// Package rootfs says what the root of a sandbox is made of, whoever builds it: the host's own system folders or those of a directory,
// an /etc that tells nothing about the host, and the writable places.
package rootfs

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/glovebox-dev/glovebox/internal/guest/confine"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// hostDirs are the folders of the host that make up the default root.
var hostDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// ownDirs are the top-level folders that every sandbox has of its own; a root's own folders of these names are not shown.
var ownDirs = []string{"dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var", "workspace", "mnt", "media", "lost+found", "boot", "srv"}

// etcShown are the entries of /etc that programs need and that hold nothing about this host or its users: where the dynamic
// linker and Debian's alternatives point to, certificates of public authorities, fonts, time zone, and tables of numbers; and what R
// cannot start or build without, but not its Renviron.site and Rprofile.site, where administrators put what only their users should know.
// Each costs some 40 microseconds at every start, so what few programs miss is left out.
var etcShown = []string{"alternatives", "ld.so.cache", "ssl/certs", "ssl/openssl.cnf", "pki/tls/certs", "pki/ca-trust/extracted",
	"crypto-policies", "fonts", "localtime", "mime.types", "magic", "protocols", "services", "os-release", "java-17-openjdk",
	"java-21-openjdk", "matplotlibrc", "R/ldpaths", "R/Renviron", "R/Makeconf", "R/repositories"}

// Hostname is that of every sandbox.
const Hostname = "sandbox"

const (
	passwd = "root:x:0:0:root:/root:/usr/sbin/nologin\nagent:x:1000:1000:agent:" + sandbox.Home +
		":/bin/bash\nnobody:x:65534:65534:nobody:/nonexistent:/usr/sbin/nologin\n"
	group    = "root:x:0:\ntty:x:5:\nagent:x:1000:\nnogroup:x:65534:\n"
	hosts    = "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	nsswitch = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
)

// System are the steps that show a root file system: its top-level folders, read-only, and of its /etc what is shown. dir is
// "/" for the host itself. The folder may be hostile: its links are copied as links, never followed here.
func System(dir string) ([]confine.Step, error) {
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
		s, err := show(dir, name)
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
func show(dir, target string) ([]confine.Step, error) {
	source := filepath.Join(dir, target)
	info, err := os.Lstat(source)
	if err != nil {
		return nil, err
	}
	switch info.Mode().Type() {
	case fs.ModeSymlink:
		to, err := os.Readlink(source)
		return []confine.Step{{Do: confine.Symlink, Target: target, Source: to}}, err
	case fs.ModeDir, 0:
		s, err := bind(dir, target, source)
		return []confine.Step{s}, err
	}
	return nil, nil
}

// bind is the step that shows a file or folder of a root, which is opened later: by then whoever the root belongs to may have put a link
// in its place, or on the way. Only the host's own are trusted.
func bind(dir, target, source string) (confine.Step, error) {
	s := confine.Step{Do: confine.Bind, Target: strings.TrimPrefix(target, "/"), Source: source}
	if dir == "/" {
		return s, nil
	}
	real, err := filepath.EvalSymlinks(source)
	if err != nil {
		return s, err
	}
	if !strings.HasPrefix(real, strings.TrimSuffix(dir, "/")+"/") {
		return s, &sandbox.Error{Kind: sandbox.Invalid, Op: "root " + dir, Msg: "/" + s.Target + " leads out of it"}
	}
	s.Source, s.Flags = real, confine.NoLinks
	return s, nil
}

func etcSteps(dir string) ([]confine.Step, error) {
	file := func(name, content string) confine.Step {
		return confine.Step{Do: confine.File, Target: "etc/" + name, Source: content, Mode: 0o644}
	}
	steps := []confine.Step{
		{Do: confine.Dir, Target: "etc", Mode: 0o755},
		file("passwd", passwd), file("group", group), file("hostname", Hostname+"\n"), file("hosts", hosts),
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
		s, err := show(dir, path.Join("etc", name))
		if err != nil {
			return nil, err
		}
		steps = append(steps, s...)
	}
	return steps, nil
}
