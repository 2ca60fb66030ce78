// Package idmap shows directories of the host in sandboxes under other owners, without a change on disk.
package idmap

import (
	"errors"
	"fmt"
	"os"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/glovebox-dev/glovebox/internal/nolink"
	"github.com/glovebox-dev/glovebox/sandbox"
)

// Detach clones the mount of a host path, to be attached in a sandbox. Of a writable one the owner on disk is mapped to the
// code's host id, so that the code owns what its owner owns, and new files belong to the owner. Linux 5.12, and a file system
// that can do it. With guest, which is 0 for none, that host id may make files there
// as well, as a server of files does that gives them to the code at once: on disk they are root's until then, or nobody's where root is the owner.
func Detach(mount sandbox.Mount, code, guest uint32) (fd int, err error) {
	op := "mount " + mount.Source
	// No element may be a link: what the caller checked and what is opened here would otherwise be two things.
	place, err := nolink.OpenPath(mount.Source)
	if err != nil {
		return -1, &sandbox.Error{Kind: sandbox.Invalid, Op: op, Err: err}
	}
	defer unix.Close(place)
	fd, err = unix.OpenTree(place, "", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE|unix.AT_EMPTY_PATH)
	if err != nil {
		return -1, &sandbox.Error{Kind: sandbox.Invalid, Op: op, Err: err}
	}
	var st unix.Stat_t
	err = unix.Fstat(fd, &st)
	if err == nil && mount.Writable {
		err = mapOwner(fd, st.Uid, st.Gid, code, guest)
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

func mapOwner(fd int, uid, gid, code, guest uint32) error {
	ns, err := mappedNamespace(mapping(uid, code, guest), mapping(gid, code, guest))
	if err != nil {
		return err
	}
	defer ns.Close()
	attr := unix.MountAttr{Attr_set: unix.MOUNT_ATTR_IDMAP, Userns_fd: uint64(ns.Fd())}
	err = unix.MountSetattr(fd, "", unix.AT_EMPTY_PATH|unix.AT_RECURSIVE, &attr)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.EPERM) {
		return &sandbox.Error{Kind: sandbox.Unsupported, Op: "map the owner of the working directory",
			Msg: "the file system that it is on cannot map ids", Err: err,
			Fix: "use a directory on ext4, xfs, btrfs or tmpfs, or run as the directory's owner"}
	}
	return err
}

// mapping has the owner on disk stand for the host id of the code.
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

// mappedNamespace makes a user namespace in which the owner on disk stands for the host id, only to be named in a mount. It lives as
// long as the descriptor.
func mappedNamespace(uids, gids []syscall.SysProcIDMap) (*os.File, error) {
	// A stopped process would do; one that waits for its traced exec is stopped before it has run anything of its own.
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
	// "cat" of an empty pipe waits until we close the other end.
	p, err := os.StartProcess("/bin/cat", []string{"cat"}, &os.ProcAttr{Files: []*os.File{r, nil, nil}, Env: []string{}, Sys: attr})
	if err != nil {
		return nil, fmt.Errorf("make a namespace for the id map: %w", err)
	}
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/user", p.Pid))
	w.Close()
	_ = p.Kill()
	_, waitErr := p.Wait()
	return ns, errors.Join(err, waitErr)
}
