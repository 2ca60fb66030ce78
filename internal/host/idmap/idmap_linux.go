// Package idmap mounts host directories in sandboxes under other owners, without a change on disk.
package idmap

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/host/nolink"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Detach clones a mount for a sandbox. It maps the owner of a writable mount or a volume to the code's host id:
// the code owns the owner's files, and new files belong to the owner. That requires Linux 5.12 and a file system with
// id mapping. A guest other than 0 may create files there too, which it then gives to the code; until then they belong
// on disk to root, or to nobody if root is the owner.
func Detach(mount sandbox.Mount, code, guest uint32) (fd int, err error) {
	return detach(mount, func(uid, gid uint32) (*os.File, error) {
		return mappedNamespace(mapping(uid, code, guest), mapping(gid, code, guest))
	})
}

// DetachIn is Detach for a volume whose owner is a user of a sandbox's user namespace, that of a process. It makes no
// further namespace, which takes a process. All files of a volume have that owner, so no other id matters.
func DetachIn(mount sandbox.Mount, user sandbox.User, code uint32, pid int) (fd int, err error) {
	return detach(mount, func(uid, gid uint32) (*os.File, error) {
		if mount.Open != nil && uid == user.UID && gid == user.GID {
			return os.Open(fmt.Sprintf("/proc/%d/ns/user", pid))
		}
		return mappedNamespace(mapping(uid, code, 0), mapping(gid, code, 0))
	})
}

// detach maps the owner by a user namespace that it gets for the ids of the owner.
func detach(mount sandbox.Mount, namespace func(uid, gid uint32) (*os.File, error)) (fd int, err error) {
	op := "mount " + mount.Source
	if mount.Volume != "" {
		op = "mount volume " + mount.Volume
	}
	if fd, err = clone(mount); err != nil {
		return -1, &sandbox.Error{Kind: sandbox.Invalid, Op: op, Err: err}
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && (mount.Writable || mount.Volume != "") {
		err = mapOwner(fd, namespace, st.Uid, st.Gid)
	}
	if err != nil {
		unix.Close(fd)
		var known *sandbox.Error
		if errors.As(err, &known) {
			return -1, err
		}
		return -1, &sandbox.Error{Kind: sandbox.Invalid, Op: op, Err: err}
	}
	return fd, nil
}

// DetachRange clones the mount of a host folder, read-only, and maps its ids from 0 on to count host ids from host on.
// It needs what Detach needs.
func DetachRange(dir string, host, count uint32) (fd int, err error) {
	op := "mount " + dir
	place, err := nolink.OpenPath(dir)
	if err != nil {
		return -1, &sandbox.Error{Kind: sandbox.Invalid, Op: op, Err: err}
	}
	defer unix.Close(place)
	fd, err = unix.OpenTree(place, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, &sandbox.Error{Kind: sandbox.Invalid, Op: op, Err: err}
	}
	ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: int(host), Size: int(count)}}
	ns, err := mappedNamespace(ids, ids)
	if err == nil {
		err = mapMount(fd, ns, unix.MOUNT_ATTR_RDONLY)
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// clone returns a new detached mount for a sandbox.
func clone(mount sandbox.Mount) (fd int, err error) {
	if mount.Open != nil {
		return mount.Open()
	}
	// No element may be a link: otherwise the checked and the opened path could differ.
	place, err := nolink.OpenPath(mount.Source)
	if err != nil {
		return -1, err
	}
	defer unix.Close(place)
	return unix.OpenTree(place, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
}

func mapOwner(fd int, namespace func(uid, gid uint32) (*os.File, error), uid, gid uint32) error {
	ns, err := namespace(uid, gid)
	if err != nil {
		return err
	}
	return mapMount(fd, ns, 0)
}

// mapMount maps the ids of a detached mount by a user namespace, which it closes, and sets further attributes.
func mapMount(fd int, ns *os.File, attributes uint64) error {
	defer ns.Close()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP | attributes, Userns_fd: uint64(ns.Fd())}
	err := unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "map the owner of the host directory",
			Msg: "its file system cannot map ids", Err: err,
			Fix: "use a directory on ext4, xfs, btrfs or tmpfs, or run as the directory's owner"}
	}
	return err
}

// mapping maps the owner on disk to the code's host id.
func mapping(owner, code, guest uint32) []syscall.SysProcIDMap {
	m := []syscall.SysProcIDMap{{ContainerID: int(owner), HostID: int(code), Size: 1}}
	if guest != 0 {
		const nobody = 65534
		disk := 0
		if owner == 0 {
			disk = nobody
		}
		m = append(m, syscall.SysProcIDMap{ContainerID: disk, HostID: int(guest), Size: 1})
	}
	return m
}

// mappedNamespace makes a user namespace that maps the owner on disk to the host id, for a mount.
func mappedNamespace(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	// Any stopped process would do; one that waits for its traced exec stops before it runs anything.
	attr := &syscall.SysProcAttr{
		Cloneflags:  unix.CLONE_NEWUSER,
		UidMappings: uids,
		GidMappings: gids,
	}
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	defer w.Close()
	// "cat" of an empty pipe waits until the other end closes.
	p, err := os.StartProcess("/bin/cat", []string{"cat"}, &os.ProcAttr{Files: []*os.File{r, nil, nil}, Env: []string{},
		Sys: attr})
	if err != nil {
		return nil, fmt.Errorf("make a namespace for the id map: %w", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	w.Close()
	_ = p.Kill()
	_, waitErr := p.Wait()
	return ns, errors.Join(err, waitErr)
}
