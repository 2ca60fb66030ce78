package volume

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/sandbox"
)

const (
	loopControl = "/dev/loop-control"
	firstLoop   = "/dev/loop0"
	loopTimeout = 10 * time.Second // for the kernel to detach a device
	loopPoll    = 2 * time.Millisecond
)

// attach returns an open loop device of a file: the attached one, or a new one. Two devices of one file would damage
// its file system, so the caller holds the volume's lock. The device detaches itself once nothing has it open.
func attach(ctx context.Context, path string) (*os.File, error) {
	backing, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer backing.Close()
	for deadline := time.Now().Add(loopTimeout); ; {
		loop, err := attached(backing)
		if loop != nil || err != nil {
			return loop, err
		}
		if loop, err = attachNew(backing); err == nil {
			return loop, nil
		}
		if !passes(err) {
			return nil, err
		}
		if time.Now().After(deadline) {
			return nil, noLoops(err)
		}
		select {
		case <-time.After(loopPoll):
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

// noLoops is the error of a host whose loop devices are all in use. It does not unwrap to why the last was not free.
func noLoops(err error) error {
	return &sandbox.Error{Kind: sandbox.Busy, Op: "volume", Msg: "no loop device is free: " + err.Error(),
		Fix: "try again later, or end sandboxes with volumes"}
}

// passes reports whether a later attempt could attach a device: another process took the free one first (EBUSY), the
// kernel still detaches it (ENXIO), or it has no file, as a container has a fixed number of them.
func passes(err error) bool {
	if errors.Is(err, unix.EBUSY) || errors.Is(err, unix.ENXIO) {
		return true
	}
	var missing *os.PathError
	if !errors.As(err, &missing) || missing.Path == loopControl || !errors.Is(err, fs.ErrNotExist) {
		return false
	}
	_, err = os.Stat(firstLoop)
	return err == nil
}

func attachNew(backing *os.File) (*os.File, error) {
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, os.NewSyscallError("LOOP_CTL_GET_FREE", err)
	}
	loop, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	config := unix.LoopConfig{Fd: uint32(backing.Fd()), Size: blockSize,
		Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO}}
	if err := unix.IoctlLoopConfigure(int(loop.Fd()), &config); err != nil {
		return nil, errors.Join(os.NewSyscallError("LOOP_CONFIGURE", err), loop.Close())
	}
	return loop, nil
}

// attached returns the open loop device of a file, or nil.
func attached(backing *os.File) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Fstat(int(backing.Fd()), &st); err != nil {
		return nil, os.NewSyscallError("fstat", err)
	}
	found, err := filepath.Glob("/sys/block/loop*/loop")
	if err != nil {
		return nil, err
	}
	for _, dir := range found {
		path, err := os.ReadFile(filepath.Join(dir, "backing_file"))
		if err != nil || !strings.Contains(string(path), "/"+diskFile) {
			continue // another program's
		}
		loop, err := os.Open("/dev/" + filepath.Base(filepath.Dir(dir)))
		if err != nil {
			continue // detached meanwhile
		}
		info, err := unix.IoctlLoopGetStatus64(int(loop.Fd()))
		if err == nil && info.Device == kernelDevice(st.Dev) && info.Inode == st.Ino {
			return loop, nil
		}
		loop.Close()
	}
	return nil, nil
}

// kernelDevice encodes a device number as the loop driver reports it (huge_encode_dev).
func kernelDevice(dev uint64) uint64 {
	major, minor := uint64(unix.Major(dev)), uint64(unix.Minor(dev))
	return minor&0xff | major<<8 | (minor&^0xff)<<12
}
