package files

import (
	"bytes"
	"encoding/binary"
	"slices"

	"golang.org/x/sys/unix"
)

const (
	direntBytes = 16 << 10 // read from a folder at once
	nameCost    = 32       // fixed cost of a name, in addition to its bytes

	// heldNames bounds the names that one call keeps in memory, in bytes: some 50,000 of usual length. Of a larger
	// folder the first ones in order are kept, and the folder is read again when they are used up.
	heldNames = 2 << 20
)

type folderReader struct{ buf []byte }

// each calls f with each name in the folder, from the beginning, until f returns false. The name is valid during the
// call only.
func (r *folderReader) each(fd int, f func(name []byte) bool) error {
	if r.buf == nil {
		r.buf = make([]byte, direntBytes)
	}
	if _, err := unix.Seek(fd, 0, 0); err != nil {
		return err
	}
	for {
		n, err := unix.Getdents(fd, r.buf)
		switch {
		case err == unix.EINTR:
			continue
		case err == unix.ENOENT: // the folder was removed
			return nil
		case err != nil:
			return err
		case n == 0:
			return nil
		}
		if !eachIn(r.buf[:n], f) {
			return nil
		}
	}
}

// eachIn parses the result of getdents64(2): records of inode (8 bytes), offset (8), length (2), type (1) and name.
func eachIn(buf []byte, f func(name []byte) bool) bool {
	const nameAt = 19
	for len(buf) > nameAt {
		length := int(binary.NativeEndian.Uint16(buf[16:]))
		if length <= nameAt || length > len(buf) {
			return false
		}
		name := buf[nameAt:length]
		if i := bytes.IndexByte(name, 0); i >= 0 {
			name = name[:i]
		}
		buf = buf[length:]
		if string(name) == "." || string(name) == ".." {
			continue
		}
		if !f(name) {
			return false
		}
	}
	return true
}

// after returns the folder's names after the given one, in order, and their cost. If they exceed the budget, only the
// first ones are returned, and more is true.
func (r *folderReader) after(fd int, last string, budget int) (names []string, cost int, more bool, err error) {
	most := "" // largest kept name, once some were dropped
	err = r.each(fd, func(name []byte) bool {
		if string(name) <= last || more && string(name) > most {
			return true
		}
		names = append(names, string(name))
		cost += nameCost + len(name)
		if cost > 2*budget {
			names, cost = least(names, cost, budget)
			more, most = true, names[len(names)-1]
		}
		return true
	})
	slices.Sort(names)
	if cost > budget {
		names, cost = least(names, cost, budget)
		more = true
	}
	return names, cost, more, err
}

// least sorts the names and keeps the first ones that fit the budget, at least one.
func least(names []string, cost, budget int) ([]string, int) {
	slices.Sort(names)
	n := len(names)
	for n > 1 && cost > budget {
		n--
		cost -= nameCost + len(names[n])
	}
	clear(names[n:]) // release their memory
	return names[:n], cost
}
