package files

import (
	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

// permissions are the mode bits that a host may set: never the set-id and sticky bits.
const permissions = 0o777

// orMode returns mode's permission bits, or otherwise if mode is 0.
func orMode(mode, otherwise uint32) uint32 {
	if mode&permissions == 0 {
		return otherwise
	}
	return mode & permissions
}

var fileTypes = map[uint32]guest.FileType{
	unix.S_IFREG:  guest.FileRegular,
	unix.S_IFDIR:  guest.FileDir,
	unix.S_IFLNK:  guest.FileSymlink,
	unix.S_IFBLK:  guest.FileDevice,
	unix.S_IFCHR:  guest.FileDevice,
	unix.S_IFIFO:  guest.FilePipe,
	unix.S_IFSOCK: guest.FileSocket,
}

func fileInfo(path string, st *unix.Stat_t) guest.FileInfo {
	info := guest.FileInfo{
		Path:  path,
		Type:  fileTypes[st.Mode&unix.S_IFMT],
		Mode:  st.Mode & 0o7777,
		UID:   st.Uid,
		GID:   st.Gid,
		MTime: unix.TimespecToNsec(st.Mtim),
		CTime: unix.TimespecToNsec(st.Ctim),
		Inode: st.Ino,
		Links: uint64(st.Nlink),
	}
	if info.Type == guest.FileRegular {
		info.Size = uint64(st.Size)
	}
	return info
}

// describe describes one entry of an open folder; of a link, the link itself.
func describe(dir int, name, path string) (guest.FileInfo, error) {
	var st unix.Stat_t
	if err := unix.Fstatat(dir, name, &st, unix.AT_SYMLINK_NOFOLLOW); err != nil {
		return guest.FileInfo{Path: path, Err: why(err)}, err
	}
	info := fileInfo(path, &st)
	if info.Type == guest.FileSymlink {
		target, err := readLink(dir, name)
		if err != nil {
			info.Err = why(err)
		}
		info.Target = target
	}
	return info, nil
}

func (t *Tree) Stat(req *guest.Stat, _ Call) (answer guest.Message, err error) {
	defer explain(&err, "look at", req.Path)
	p, err := t.place(req.Path)
	if err != nil {
		return nil, err
	}
	var info guest.FileInfo
	flags := openPath
	if !req.Follow {
		flags |= unix.O_NOFOLLOW
	}
	if p.folder {
		flags |= unix.O_DIRECTORY
	}
	err = t.threads.do(func() error {
		fd, err := t.openServed(unix.AT_FDCWD, p.path, flags, 0, 0)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil {
			return err
		}
		info = fileInfo(req.Path, &st)
		if info.Type == guest.FileDir {
			info.Size = uint64(max(st.Size, 0))
		}
		if info.Type == guest.FileSymlink {
			info.Target, err = readLink(fd, "")
		}
		return err
	})
	return &info, err
}
