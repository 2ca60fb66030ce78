package files

import "golang.org/x/sys/unix"

// maxOpenLevels bounds one call's open descriptors, however deep the code's folders are.
const maxOpenLevels = 16

// descent is a chain of folders from the top to the current one. Only the lowest are open. It goes back up by "..", and
// checks that this is the folder it came from: the code may have moved things.
type descent struct{ levels []level }

type level struct {
	fd       int // -1 where it was closed to save descriptors
	dev, ino uint64
	name     string // in the level above
}

func (d *descent) fd() int { return d.levels[len(d.levels)-1].fd }

// push enters the folder open in fd, which has this name in the current one. It takes fd over.
func (d *descent) push(fd int, name string) error {
	var st unix.Stat_t
	if err := unix.Fstat(fd, &st); err != nil {
		unix.Close(fd)
		return err
	}
	d.levels = append(d.levels, level{fd: fd, dev: uint64(st.Dev), ino: st.Ino, name: name})
	if i := len(d.levels) - 1 - maxOpenLevels; i >= 0 && d.levels[i].fd >= 0 {
		unix.Close(d.levels[i].fd)
		d.levels[i].fd = -1
	}
	return nil
}

// pop goes back up. It must not be called at the top.
func (d *descent) pop() error {
	low := &d.levels[len(d.levels)-1]
	high := &d.levels[len(d.levels)-2]
	if high.fd < 0 {
		fd, err := openat(low.fd, "..", openFolder, 0)
		if err != nil {
			return err
		}
		var st unix.Stat_t
		if err := unix.Fstat(fd, &st); err != nil || uint64(st.Dev) != high.dev || st.Ino != high.ino {
			unix.Close(fd)
			return errMoved
		}
		high.fd = fd
	}
	unix.Close(low.fd)
	d.levels = d.levels[:len(d.levels)-1]
	return nil
}

func (d *descent) close() {
	for _, l := range d.levels {
		if l.fd >= 0 {
			unix.Close(l.fd)
		}
	}
	d.levels = nil
}
