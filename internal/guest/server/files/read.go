package files

import (
	"sync"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
)

var blocks = sync.Pool{New: func() any { return new([guest.MaxData]byte) }}

// openRegular opens a regular file for reading. Anything else is refused, in the worst case after opening it: that does
// not block, and has no effect on the sandbox's devices.
func (t *Tree) openRegular(dir int, path string, flags int, resolve uint64) (fd int, st unix.Stat_t, err error) {
	fd, err = t.openServed(dir, path, unix.O_RDONLY|openAlways|flags, 0, resolve)
	if err != nil {
		return -1, st, err
	}
	if err = unix.Fstat(fd, &st); err == nil {
		err = regular(&st)
	}
	if err != nil {
		unix.Close(fd)
		return -1, st, err
	}
	return fd, st, nil
}

func regular(st *unix.Stat_t) error {
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFREG:
		return nil
	case unix.S_IFDIR:
		return unix.EISDIR
	}
	return errIrregular
}

func (t *Tree) ReadFile(req *guest.ReadFile, c Call) (answer guest.Message, err error) {
	defer explain(&err, "read", req.Path)
	n, err := t.read(req, c)
	return &guest.Done{Size: n}, err
}

// read returns how many bytes it sent. It reads up to the size at the beginning, so the call ends although a file
// grows.
func (t *Tree) read(req *guest.ReadFile, c Call) (uint64, error) {
	p, err := t.place(req.Path)
	if err != nil {
		return 0, err
	}
	flags := 0
	if p.folder {
		flags = unix.O_DIRECTORY
	}
	var fd int
	var st unix.Stat_t
	if err := t.threads.do(func() (err error) {
		fd, st, err = t.openRegular(unix.AT_FDCWD, p.path, flags, 0)
		return err
	}); err != nil {
		return 0, err
	}
	defer unix.Close(fd)
	info := fileInfo(req.Path, &st)
	if err := c.Send(&info); err != nil {
		return 0, err
	}
	if req.Offset >= info.Size {
		return 0, nil
	}
	n := info.Size - req.Offset
	if req.Length > 0 {
		n = min(n, req.Length)
	}
	return sendContent(c, fd, int64(req.Offset), n)
}

// sendContent sends up to n bytes of an open file from an offset. Permission was checked when the file was opened, so
// any thread may read it.
func sendContent(c Call, fd int, offset int64, n uint64) (sent uint64, err error) {
	block := blocks.Get().(*[guest.MaxData]byte)
	defer blocks.Put(block)
	for sent < n {
		k, err := unix.Pread(fd, block[:min(n-sent, guest.MaxData)], offset+int64(sent))
		switch {
		case err == unix.EINTR:
			continue
		case err != nil:
			return sent, err
		case k == 0:
			return sent, nil
		}
		if err := c.SendData(block[:k]); err != nil {
			return sent, err
		}
		sent += uint64(k)
	}
	return sent, nil
}
