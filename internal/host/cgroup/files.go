//go:build linux

package cgroup

import (
	"errors"
	"io"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"
)

// These functions use plain system calls: package os would add each kernel file to its poller and remove it again,
// which doubles the cost.

func readFile(dir, name string) ([]byte, error) {
	path := filepath.Join(dir, name)
	fd, err := openFile(path, unix.O_RDONLY)
	if err != nil {
		return nil, err
	}
	defer unix.Close(fd)
	text := make([]byte, 0, 512)
	for {
		if len(text) == cap(text) {
			text = append(text, 0)[:len(text)]
		}
		n, err := retry(func() (int, error) { return unix.Read(fd, text[len(text):cap(text)]) })
		if err != nil {
			return nil, &os.PathError{Op: "read", Path: path, Err: err}
		}
		if n == 0 {
			return text, nil
		}
		text = text[:len(text)+n]
	}
}

func writeFile(dir, name, value string) error {
	path := filepath.Join(dir, name)
	fd, err := openFile(path, unix.O_WRONLY)
	if err != nil {
		return err
	}
	defer unix.Close(fd)
	n, err := retry(func() (int, error) { return unix.Write(fd, []byte(value)) })
	if err == nil && n < len(value) {
		err = io.ErrShortWrite
	}
	if err != nil {
		return &os.PathError{Op: "write", Path: path, Err: err}
	}
	return nil
}

func openFile(path string, flags int) (int, error) {
	fd, err := retry(func() (int, error) { return unix.Open(path, flags|unix.O_CLOEXEC, 0) })
	if err != nil {
		return -1, &os.PathError{Op: "open", Path: path, Err: err}
	}
	return fd, nil
}

// retry repeats a system call that a signal interrupted.
func retry(call func() (int, error)) (int, error) {
	for {
		n, err := call()
		if !errors.Is(err, unix.EINTR) {
			return n, err
		}
	}
}
