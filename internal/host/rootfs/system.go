// Package rootfs defines a sandbox's root, for all backends: the system folders of the host or of a directory, an /etc
// without information about the host, and the writable places.
package rootfs

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// hostDirs are the host folders of the default root.
var hostDirs = []string{"usr", "bin", "sbin", "lib", "lib32", "lib64", "libx32"}

// ownDirs are top-level folders that every sandbox makes itself; a root's folders of these names are not shown.
var ownDirs = []string{"dev", "etc", "home", "proc", "root", "run", "sys", "tmp", "var", "workspace", "mnt", "media",
	"lost+found", "boot"}

// optDir is where layers of packages go, each below a folder of ours.
const optDir = "opt"

// mergedDirs are folders of which a sandbox makes one part, and a root other than the host's gives the rest, except
// these entries.
var mergedDirs = map[string][]string{
	"home": {path.Base(sandbox.Home), path.Base(sandbox.WorkspaceAlias)},
	optDir: {"fumehood"},
	"var":  {"tmp", "run", "lock", "log", "mail", "spool", "backups"},
}

// Shows reports whether sandboxes show an absolute path of a root other than the host's.
func Shows(name string) bool {
	top, rest, _ := strings.Cut(path.Clean(name)[1:], "/")
	entry, _, _ := strings.Cut(rest, "/")
	if own, merged := mergedDirs[top]; merged {
		return top == optDir && entry == "" || entry != "" && !slices.Contains(own, entry)
	}
	return top == "root" || !slices.Contains(ownDirs, top)
}

// etcShown are the entries of /etc that programs need and that contain nothing about this host or its users: targets of
// the dynamic linker and Debian's alternatives, public certificates, fonts, time zone, and number tables; and R's files
// for starting and building, without Renviron.site and Rprofile.site, which may contain secrets. Each costs some 40
// microseconds per start, so entries for few programs are missing.
var etcShown = []string{"alternatives", "ld.so.cache", "ssl/certs", "ssl/cert.pem", "ssl/openssl.cnf", "pki/tls/certs",
	"pki/tls/cert.pem", "pki/ca-trust/extracted", "ca-certificates/extracted", "crypto-policies", "fonts", "localtime",
	"mime.types", "magic", "protocols", "services", "os-release", "java-17-openjdk",
	"java-21-openjdk", "matplotlibrc", "R/ldpaths", "R/Renviron", "R/Makeconf", "R/repositories"}

// Hostname is the host name of every sandbox.
const Hostname = "sandbox"

// Resolver is the resolv.conf(5) of every sandbox. The gate answers there (sandbox.LinkGateway4), also with more than
// 512 bytes (RFC 6891). Without a network, lookups fail at once.
const Resolver = "nameserver 198.18.0.1\noptions edns0\n"

const (
	hosts    = "127.0.0.1\tlocalhost sandbox\n::1\tlocalhost ip6-localhost ip6-loopback\n"
	nsswitch = "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"
)

// BuilderFiles are the files that a builder's root has in place of those of its image, by path.
var BuilderFiles = map[string]string{"etc/hostname": Hostname + "\n", "etc/hosts": hosts, "etc/resolv.conf": Resolver}

// System returns the steps that show a root file system: its top-level folders, read-only, and the shown part of its
// /etc, where user is that of the code. dir is "/" for the host itself. The folder may be hostile: links are copied as
// links, never followed.
func System(dir string, user sandbox.User) ([]confine.Step, error) {
	names := hostDirs
	if dir != "/" {
		entries, err := list(dir, ".")
		if err != nil {
			return nil, err
		}
		names = nil
		for _, e := range entries {
			switch _, merged := mergedDirs[e.Name()]; {
			case merged && e.IsDir():
				below, err := entriesOf(dir, e.Name())
				if err != nil {
					return nil, err
				}
				names = append(names, below...)
			case Shows("/" + e.Name()):
				names = append(names, e.Name())
			}
		}
	}
	var steps []confine.Step
	if info, err := os.Lstat(filepath.Join(dir, optDir)); err == nil && info.IsDir() && dir != "/" {
		steps = append(steps, confine.Step{Do: confine.Dir, Target: optDir, Mode: 0o755})
	}
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
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "root " + dir,
			Msg: "is not a root file system: no /usr, /bin or /lib"}
	}
	etc, err := etcSteps(dir, user)
	if err != nil {
		return nil, err
	}
	return append(steps, etc...), nil
}

// entriesOf returns the shown entries of a merged folder, at most maxMerged, as each is a mount.
func entriesOf(dir, top string) (names []string, err error) {
	entries, err := list(dir, top)
	for _, e := range entries {
		if name := path.Join(top, e.Name()); Shows("/"+name) && len(names) < maxMerged {
			names = append(names, name)
		}
	}
	return names, err
}

// list returns the entries of a folder of a root by name. It refuses a folder with many: the root may be hostile, and
// each entry of the root itself is a mount.
func list(dir, name string) ([]fs.DirEntry, error) {
	invalid := func(err error) error { return &sandbox.Error{Kind: sandbox.Invalid, Op: "root " + dir, Err: err} }
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, invalid(err)
	}
	defer root.Close()
	f, err := root.Open(name)
	if err != nil {
		return nil, invalid(err)
	}
	defer f.Close()
	entries, err := f.ReadDir(maxListed + 1)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, invalid(err)
	}
	if len(entries) > maxListed {
		return nil, &sandbox.Error{Kind: sandbox.Invalid, Op: "root",
			Msg: fmt.Sprintf("%s has more than %d entries", path.Join("/", name), maxListed)}
	}
	slices.SortFunc(entries, func(a, b fs.DirEntry) int { return strings.Compare(a.Name(), b.Name()) })
	return entries, nil
}

const maxListed = 500

const maxMerged = 32

// show returns the steps that show one entry: links as links, folders and files as mounts, other kinds not at all.
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

// bind returns the step that shows a file or folder of a root. The guest opens it later, when the root's owner may have
// put a link in its path. Only the host's own paths are trusted.
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

func etcSteps(dir string, user sandbox.User) ([]confine.Step, error) {
	file := func(name, content string) confine.Step {
		return confine.Step{Do: confine.File, Target: "etc/" + name, Source: content, Mode: 0o644}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	passwd, group := accounts(root, dir, user)
	steps := []confine.Step{
		{Do: confine.Dir, Target: "etc", Mode: 0o755},
		file("passwd", passwd), file("group", group), file("hostname", Hostname+"\n"), file("hosts", hosts),
		file("nsswitch.conf", nsswitch), file("resolv.conf", Resolver), file("host.conf", "multi on\n"),
		{Do: confine.File, Target: EmptyFile, Mode: 0o644},
	}
	for _, name := range etcShown {
		// os.Root follows no link out of the folder, so a foreign root cannot make us read the host.
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
