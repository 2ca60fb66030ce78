package libexec

import (
	"errors"
	"io"
	"os"

	"golang.org/x/sys/unix"
)

const allSeals = unix.F_SEAL_SEAL | unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_WRITE

// seal copies content into a sealed memory file. Nothing can write to it again, not even through /proc/self/exe of a
// process that runs it (CVE-2019-5736).
func seal(name string, content io.Reader) (*os.File, error) {
	const flags = unix.MFD_CLOEXEC | unix.MFD_ALLOW_SEALING
	fd, err := unix.MemfdCreate(name, flags|unix.MFD_EXEC)
	if errors.Is(err, unix.EINVAL) { // before Linux 6.3 every memory file is executable
		fd, err = unix.MemfdCreate(name, flags)
	}
	if errors.Is(err, unix.EACCES) { // vm.memfd_noexec=2
		return unlinked(name, content)
	}
	if err != nil {
		return nil, os.NewSyscallError("memfd_create", err)
	}
	f := os.NewFile(uintptr(fd), name)
	if _, err := io.Copy(f, content); err != nil {
		f.Close()
		return nil, err
	}
	if err := f.Chmod(0o555); err != nil {
		f.Close()
		return nil, err
	}
	if err := addSeals(f); err != nil {
		f.Close()
		return nil, os.NewSyscallError("fcntl F_ADD_SEALS", err)
	}
	return f, nil
}

// sealTries bounds the attempts to seal a file whose pages the kernel still holds, for example while it moves them
// (EBUSY; memfd.c waits 150 ms each time).
const sealTries = 20

func addSeals(f *os.File) (err error) {
	for range sealTries {
		if _, err = unix.FcntlInt(f.Fd(), unix.F_ADD_SEALS, allSeals); !errors.Is(err, unix.EBUSY) {
			return err
		}
	}
	return err
}
