package volume

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	blockSize    = 4096
	diskEnforcer = "ext4 on a loop device"

	// The journal takes up to this much of the volume.
	journalMiB      = 4
	largeJournalMiB = 16
	largeVolume     = 1 << 30
)

// makeDisk makes a sparse file with an empty file system, whose root belongs to the default user of sandboxes. It
// mounts it once: so a host that cannot mount it refuses the volume, not its users.
func makeDisk(ctx context.Context, path string, r *record) error {
	if os.Geteuid() != 0 {
		return cannotBound("only root can mount a file system with a size", "run fumehood as root", nil)
	}
	program, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		return cannotBound("mkfs.ext4 is not installed", "install e2fsprogs", nil)
	}
	if err := checkSpace(filepath.Dir(path), r.Bytes, 0); err != nil {
		return err
	}
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err == nil {
		err = errors.Join(f.Truncate(r.Bytes), f.Close())
	}
	if err != nil {
		return err
	}
	journal := journalMiB
	if r.Bytes >= largeVolume {
		journal = largeJournalMiB
	}
	owner := sandbox.DefaultUser
	cmd := exec.CommandContext(ctx, program, "-q", "-F", "-b", strconv.Itoa(blockSize), "-m", "0",
		"-N", strconv.FormatInt(r.Inodes, 10), "-J", "size="+strconv.Itoa(journal), "-O", "^resize_inode",
		"-E", fmt.Sprintf("nodiscard,lazy_itable_init=1,lazy_journal_init=1,root_owner=%d:%d", owner.UID, owner.GID),
		path)
	cmd.Env = []string{"PATH=/usr/sbin:/usr/bin:/sbin:/bin", "LC_ALL=C"}
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %w: %.300s", program, err, bytes.TrimSpace(out))
	}
	d, err := mountDisk(ctx, path)
	if lacks(err) {
		return cannotBound("this host cannot mount a loop device", "load the kernel modules loop and ext4, and give "+
			"the container of fumehood the devices /dev/loop*", err)
	}
	if err != nil {
		return err
	}
	defer d.close()
	return os.NewSyscallError("rmdir lost+found", unix.Unlinkat(d.fd, "lost+found", unix.AT_REMOVEDIR))
}

// lacks reports whether an error of mountDisk means that this host cannot mount any disk: it has no loop devices, no
// ext4, no such system calls, or does not permit it. Any other error could pass, or a client could cause it, so it
// leads to no volume without a bound.
func lacks(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrPermission) || errors.Is(err, unix.ENODEV) ||
		errors.Is(err, unix.ENOSYS)
}

// freeSpace returns the free bytes of a folder's disk.
func freeSpace(dir string) (free, size int64, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, 0, os.NewSyscallError("statfs", err)
	}
	return int64(st.Bavail) * st.Bsize, int64(st.Blocks) * st.Bsize, nil
}

// makeFiles makes the folder of a volume without a bound.
func makeFiles(path string) error {
	err := os.Mkdir(path, 0o755)
	if err == nil && os.Geteuid() == 0 {
		err = os.Chown(path, int(sandbox.DefaultUser.UID), int(sandbox.DefaultUser.GID))
	}
	return err
}

// allocated returns the bytes that a file takes on the disk.
func allocated(path string) (int64, error) {
	var st unix.Stat_t
	if err := unix.Lstat(path, &st); err != nil {
		return 0, &os.PathError{Op: "stat", Path: path, Err: err}
	}
	return st.Blocks * 512, nil
}

// mountDisk attaches a file to a loop device, unless it is attached, and mounts its file system. The caller holds the
// volume's lock.
func mountDisk(ctx context.Context, path string) (*disk, error) {
	loop, err := attach(ctx, path)
	if err != nil {
		return nil, err
	}
	defer loop.Close() // the mount keeps the device
	fd, err := mountDevice(loop.Name())
	if err != nil {
		return nil, err
	}
	return &disk{device: loop.Name(), fd: fd}, nil
}

func (d *disk) again() (int, error) { return mountDevice(d.device) }

func (d *disk) close() {
	if d != nil {
		unix.Close(d.fd)
	}
}

// mountDevice returns a new detached mount of a device. All mounts of one device share one file system.
func mountDevice(device string) (int, error) {
	at, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return -1, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(at)
	err = unix.FsconfigSetString(at, "source", device)
	if err == nil {
		err = unix.FsconfigSetString(at, "errors", "remount-ro")
	}
	// mkfs left the inode tables zero. discard gives the space of deleted files back to the host's disk.
	for _, flag := range []string{"noinit_itable", "discard"} {
		if err == nil {
			err = unix.FsconfigSetFlag(at, flag)
		}
	}
	if err == nil {
		err = unix.FsconfigCreate(at)
	}
	if err != nil {
		return -1, fmt.Errorf("mount %s: %w", device, err)
	}
	fd, err := unix.Fsmount(at, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NOSUID|unix.MOUNT_ATTR_NODEV)
	return fd, os.NewSyscallError("fsmount", err)
}
