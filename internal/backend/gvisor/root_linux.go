package gvisor

import (
	"errors"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest/confine"
	"github.com/fumehood-dev/fumehood/internal/host/instance"
	"github.com/fumehood-dev/fumehood/internal/host/rootfs"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// root is the shared root of all sandboxes with the same host folder: a skeleton of folders, links and generated files
// on the host, and the mounts over it. No sandbox can write to it.
type root struct {
	once  sync.Once
	err   error
	dir   string // the skeleton
	shows []shown
	hides []confine.Step // of shown files
}

// shown is a host file or folder that a root shows, read-only.
type shown struct {
	source, target string
	flags          confine.Flags
	dir            bool
}

// root returns a box's root for a host folder: the shared one, made on first use, or the box's own in dir if the box
// needs mount points or has an image. A client can build any number of images, and shared roots stay.
func (b *Backend) root(in *instance.Instance, spec *sandbox.Spec, dir string) (*root, error) {
	folder, err := rootfs.Folder(spec.Root)
	if err != nil {
		return nil, err
	}
	if spec.Root.Image != "" || len(spec.Mounts)+len(spec.Layers)+len(spec.MemoryVolumes()) > 0 {
		r := &root{dir: filepath.Join(dir, "root")}
		if err := r.build(in, folder, spec.User, b.options.Lines); err != nil {
			return nil, err
		}
		return r, r.places(spec)
	}
	key := rootKey{folder, spec.User}
	r, err := b.shared(in, key)
	if err == nil && !r.current() {
		b.forget(key, r)
		r, err = b.shared(in, key)
	}
	return r, err
}

// rootKey identifies a shared root.
type rootKey struct {
	folder string
	user   sandbox.User // of the code
}

// shared returns the root of all boxes that show only a folder.
func (b *Backend) shared(in *instance.Instance, key rootKey) (*root, error) {
	b.mu.Lock()
	r := b.roots[key]
	if r == nil {
		b.rootsMade++
		r = &root{dir: filepath.Join(in.Dir, rootPrefix+strconv.Itoa(b.rootsMade))}
		b.roots[key] = r
	}
	b.mu.Unlock()
	r.once.Do(func() {
		if r.err = r.build(in, key.folder, key.user, b.options.Lines); r.err != nil {
			b.forget(key, r) // the cause may be gone next time
			r.err = errors.Join(r.err, os.RemoveAll(r.dir))
		}
	})
	return r, r.err
}

// rootPrefix begins the names of the roots in their instance's folder; a number follows.
const rootPrefix = "root-"

// forget makes the next box with this folder get a new root. Living boxes keep theirs.
func (b *Backend) forget(key rootKey, r *root) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.roots[key] == r {
		delete(b.roots, key)
	}
}

// current reports whether everything shown still exists and no new file needs hiding: the host's packages change while
// a server runs.
func (r *root) current() bool {
	if r.hides != nil && !slices.Equal(r.hides, rootfs.Hidden()) {
		return false
	}
	return !slices.ContainsFunc(r.shows, func(s shown) bool {
		info, err := os.Lstat(s.source)
		return err != nil || info.IsDir() != s.dir
	})
}

// Paths that every root adds to the host folder: the guest, and the folder of its socket.
const (
	guestPath  = "/run/guest"
	socketDir  = "/run/fumehood"
	socketFile = "s"
)

func (r *root) build(in *instance.Instance, folder string, user sandbox.User, lines []*sandbox.Startup) error {
	steps, err := rootfs.System(folder, user)
	if err != nil {
		return err
	}
	if err := os.Mkdir(r.dir, 0o755); err != nil {
		return err
	}
	if folder == "/" {
		r.hides = append([]confine.Step{}, rootfs.Hidden()...)
	}
	for _, s := range slices.Concat(steps, rootfs.Places(), r.hides) {
		if err := r.add(s); err != nil {
			return at("build root "+s.Target, err)
		}
	}
	for _, l := range lines {
		s := confine.Step{Do: confine.File, Target: strings.TrimPrefix(l.Path, "/"), Source: l.Script, Mode: 0o644}
		if err := r.add(s); err != nil {
			return at("build root "+s.Target, err)
		}
	}
	if err := r.unmask(); err != nil {
		return err
	}
	return errors.Join(os.MkdirAll(filepath.Join(r.dir, socketDir), 0o700),
		os.Link(filepath.Join(in.Dir, guestFile), filepath.Join(r.dir, guestPath)))
}

// places makes the mount points of a spec that the root lacks.
func (r *root) places(spec *sandbox.Spec) error {
	list := rootfs.HostMounts(spec)
	for _, v := range spec.MemoryVolumes() {
		list = append(list, sandbox.Mount{Source: "memory", Target: v.Path, Open: noFile})
	}
	// The root contains the host folder's links unchanged, and another user's link may lead anywhere: os.Root follows
	// none that leads out.
	inside, err := os.OpenRoot(r.dir)
	if err != nil {
		return err
	}
	defer inside.Close()
	for _, m := range list {
		if err := rootfs.CheckTarget(m.Target); err != nil {
			return err
		}
		if err := placeFor(inside, m); err != nil {
			return &sandbox.Error{Kind: sandbox.Invalid, Op: "mount " + m.Source, Err: err,
				Fix: "choose a target path without links"}
		}
		if err := r.placeShown(m, list); err != nil {
			return err
		}
	}
	return r.unmask()
}

// noFile is the Open of a mount that is only a place.
func noFile() (int, error) { return -1, unix.ENOENT }

// placeShown refuses a target in a read-only host folder unless a mount point of the right kind exists there.
func (r *root) placeShown(m sandbox.Mount, all []sandbox.Mount) error {
	target := path.Clean(m.Target)
	below := func(folder string) bool { return strings.HasPrefix(target, path.Clean(folder)+"/") }
	if slices.ContainsFunc(all, func(other sandbox.Mount) bool { return below(other.Target) }) {
		return nil // it is within another mount
	}
	i := slices.IndexFunc(r.shows, func(s shown) bool { return below(s.target) })
	if i < 0 {
		return nil
	}
	source, err := os.OpenRoot(r.shows[i].source)
	if err != nil {
		return err
	}
	defer source.Close()
	no := func(msg string) error {
		return &sandbox.Error{Kind: sandbox.Invalid, Op: "mount " + m.Source, Msg: msg,
			Fix: "choose a target outside " + r.shows[i].target}
	}
	there, err := source.Stat(strings.TrimPrefix(target, r.shows[i].target+"/"))
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, unix.ENOTDIR) {
		return no(target + " does not exist, and " + r.shows[i].target + " is read-only")
	}
	if err != nil {
		return nil // a link leads out of the folder, to another part of the sandbox's root
	}
	folder, err := isFolder(m)
	if err == nil && folder != there.IsDir() {
		err = no("it and " + target + " must both be folders or both files")
	}
	return err
}

// unmask makes the skeleton readable by the sandbox's ids, despite the umask.
func (r *root) unmask() error {
	return filepath.WalkDir(r.dir, func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir():
			return os.Chmod(path, 0o755)
		case d.Type().IsRegular() && path != filepath.Join(r.dir, guestPath):
			return os.Chmod(path, 0o644)
		}
		return nil
	})
}

// isFolder reports whether a mount is of a folder.
func isFolder(m sandbox.Mount) (bool, error) {
	if m.Open != nil {
		return true, nil
	}
	info, err := os.Stat(m.Source)
	return err == nil && info.IsDir(), err
}

// placeFor makes the mount point of a mount, if missing.
func placeFor(inside *os.Root, m sandbox.Mount) error {
	target := strings.TrimPrefix(path.Clean(m.Target), "/")
	there, err := inside.Lstat(target)
	if err == nil && there.Mode()&os.ModeSymlink != 0 {
		return errors.New("a symbolic link is part of " + m.Target)
	}
	if !errors.Is(err, os.ErrNotExist) {
		return err
	}
	folder, err := isFolder(m)
	if err != nil {
		return err
	}
	if folder {
		return inside.MkdirAll(target, 0o755)
	}
	return errors.Join(inside.MkdirAll(path.Dir(target), 0o755), inside.WriteFile(target, nil, 0o644))
}

// add makes one entry of the skeleton. Only this user can write to its folder, so no path in it is planted.
func (r *root) add(s confine.Step) error {
	path := filepath.Join(r.dir, s.Target)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return err
	}
	switch s.Do {
	case confine.Dir:
		return os.MkdirAll(path, os.FileMode(s.Mode))
	case confine.Symlink:
		return os.Symlink(s.Source, path)
	case confine.File:
		return os.WriteFile(path, []byte(s.Source), os.FileMode(s.Mode))
	case confine.Bind:
		info, err := os.Stat(s.Source)
		if err != nil {
			return err
		}
		r.shows = append(r.shows, shown{s.Source, "/" + s.Target, s.Flags, info.IsDir()})
		if info.IsDir() {
			return os.MkdirAll(path, 0o755)
		}
		return os.WriteFile(path, nil, 0o644)
	case confine.Mask:
		// The covered folder is empty in every skeleton: gVisor mounts its own /proc over it only inside.
		cover := shown{filepath.Join(r.dir, rootfs.EmptyFile), "/" + s.Target, 0, false}
		if s.Source == rootfs.EmptyDir {
			cover.source, cover.dir = filepath.Join(r.dir, "proc"), true
		}
		r.shows = append(r.shows, cover)
		return nil
	}
	return errors.New("is not supported by this backend")
}
