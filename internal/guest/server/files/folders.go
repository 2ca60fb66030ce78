package files

import (
	"strings"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

const (
	defaultFolderMode = 0o755
	ownerBits         = 0o700 // the owner's permissions for working in a folder
)

func (t *Tree) MakeDir(req *guest.MakeDir, _ Call) (answer guest.Message, err error) {
	defer explain(&err, "make folder", req.Path)
	p, err := t.place(req.Path)
	if err != nil {
		return nil, err
	}
	mode := orMode(req.Mode, defaultFolderMode)
	return &guest.Done{}, t.threads.do(func() error {
		if req.Parents {
			dir, err := t.makeFolders(unix.AT_FDCWD, p.path, mode)
			if err == nil {
				unix.Close(dir)
			}
			return err
		}
		dir, name, err := t.openParent(p)
		if err != nil {
			return err
		}
		defer unix.Close(dir)
		fd, err := makeFolder(dir, name, mode)
		if err == nil {
			unix.Close(fd)
		}
		return err
	})
}

// makeFolder makes and opens a new folder. Its mode is exact, despite the umask.
func makeFolder(dir int, name string, mode uint32) (int, error) {
	if err := unix.Mkdirat(dir, name, mode|ownerBits); err != nil {
		return -1, err
	}
	fd, err := openat(dir, name, openFolder, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Fchmod(fd, mode); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// makeFolders opens a folder, and makes missing ones on the way, the last with the given mode. No element of the path
// below dir may be a link: the code could change it meanwhile. The returned descriptor is for *at calls only.
func (t *Tree) makeFolders(dir int, path string, mode uint32) (int, error) {
	fd, err := t.openServed(dir, path, openPath|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_SYMLINKS)
	if err != unix.ENOENT {
		return fd, err
	}
	start := "."
	if path[0] == '/' {
		start = "/"
	}
	if fd, err = t.openServed(dir, start, openPath|unix.O_DIRECTORY, 0, 0); err != nil {
		return -1, err
	}
	names := strings.FieldsFunc(path, func(r rune) bool { return r == '/' })
	for i, name := range names {
		stepMode := uint32(defaultFolderMode)
		if i == len(names)-1 {
			stepMode = mode
		}
		next, err := t.stepInto(fd, name, stepMode)
		unix.Close(fd)
		if err != nil {
			return -1, err
		}
		fd = next
	}
	return fd, nil
}

// stepInto opens the folder of this name, and makes it if it is missing.
func (t *Tree) stepInto(dir int, name string, mode uint32) (int, error) {
	for range maxTries { // the code may make and remove it meanwhile
		fd, err := t.openServed(dir, name, openPath|unix.O_DIRECTORY, 0, unix.RESOLVE_NO_SYMLINKS)
		if err != unix.ENOENT {
			return fd, err
		}
		fd, err = makeFolder(dir, name, mode)
		if err != unix.EEXIST {
			return fd, err
		}
	}
	return -1, unix.ENOENT
}

func (t *Tree) Move(req *guest.Move, _ Call) (answer guest.Message, err error) {
	defer explain(&err, "move", req.From)
	from, err := t.place(req.From)
	if err != nil {
		return nil, err
	}
	to, err := t.place(req.To)
	if err != nil {
		return nil, fileError("move the file", req.To, err)
	}
	return &guest.Done{}, t.threads.do(func() error {
		source, name, err := t.openParent(from)
		if err != nil {
			return err
		}
		defer unix.Close(source)
		var st unix.Stat_t
		if err := unix.Fstatat(source, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
			return err
		}
		if (from.folder || to.folder) && st.Mode&unix.S_IFMT != unix.S_IFDIR {
			return unix.ENOTDIR
		}
		target, newName, err := t.openParent(to)
		if err != nil {
			return fileError("move the file", req.To, err)
		}
		defer unix.Close(target)
		switch err := rename(source, name, target, newName, req.Replace); err {
		case unix.EEXIST, unix.ENOTEMPTY, unix.EISDIR, unix.ENOTDIR:
			return fileError("move the file", req.To, err)
		case unix.EINVAL:
			return errIntoItself
		default:
			return err
		}
	})
}

// rename renames a file. The new name must be free, unless replace is set.
func rename(oldDir int, oldName string, newDir int, newName string, replace bool) error {
	if replace {
		return unix.Renameat(oldDir, oldName, newDir, newName)
	}
	err := unix.Renameat2(oldDir, oldName, newDir, newName, unix.RENAME_NOREPLACE)
	if err != unix.ENOSYS && err != unix.EINVAL {
		return err
	}
	// Either the flag is unknown to the kernel or file system, or the move itself is invalid, which the plain call will
	// report. Only this check, which can race, then shows that the name is free.
	var st unix.Stat_t
	switch err := unix.Fstatat(newDir, newName, &st, unix.AT_SYMLINK_NOFOLLOW); err {
	case nil:
		return unix.EEXIST
	case unix.ENOENT:
		return unix.Renameat(oldDir, oldName, newDir, newName)
	default:
		return err
	}
}
