package server

import (
	"os"
	"strconv"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// openTerminal makes a pseudo-terminal: its master, and a descriptor of its other end for the process.
func openTerminal(rows, cols uint16, user sandbox.User) (master *os.File, peer int, err error) {
	m, err := unix.Open("/dev/ptmx", unix.O_RDWR|unix.O_NOCTTY|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, -1, failed("open /dev/ptmx", err.(syscall.Errno))
	}
	peer, err = openPeer(m)
	if err != nil {
		unix.Close(m)
		return nil, -1, failed("open terminal", err.(syscall.Errno))
	}
	// Lets the code open its terminal by name too; if the guest may not do this, only that fails.
	unix.Fchown(peer, int(user.UID), -1)
	master = os.NewFile(uintptr(m), "terminal")
	setSize(m, rows, cols)
	return master, peer, nil
}

func openPeer(master int) (int, error) {
	if err := unix.IoctlSetPointerInt(master, unix.TIOCSPTLCK, 0); err != nil {
		return -1, err
	}
	const flags = unix.O_RDWR | unix.O_NOCTTY | unix.O_CLOEXEC
	fd, _, errno := syscall.Syscall(syscall.SYS_IOCTL, uintptr(master), unix.TIOCGPTPEER, flags) // Linux 4.13
	if errno == 0 {
		return int(fd), nil
	}
	n, err := unix.IoctlGetInt(master, unix.TIOCGPTN)
	if err != nil {
		return -1, err
	}
	return unix.Open("/dev/pts/"+strconv.Itoa(n), flags, 0)
}

func setSize(fd int, rows, cols uint16) error {
	if rows == 0 || cols == 0 {
		return nil
	}
	return unix.IoctlSetWinsize(fd, unix.TIOCSWINSZ, &unix.Winsize{Row: rows, Col: cols})
}

func (s *Server) resize(c *call, m *guest.Resize) error {
	p, err := s.table.find(m.ID)
	if err != nil {
		return err
	}
	if p.tty == nil {
		return invalid("resize "+m.ID, "it has no terminal")
	}
	raw, err := p.tty.SyscallConn()
	if err == nil {
		var inner error
		if err = raw.Control(func(fd uintptr) { inner = setSize(int(fd), m.Rows, m.Cols) }); err == nil {
			err = inner
		}
	}
	if err != nil {
		return &guest.Failed{Kind: sandbox.NotFound, Op: "resize " + m.ID, Msg: "its terminal is closed"}
	}
	return c.answer(&guest.Done{})
}
