package terminal

import "golang.org/x/sys/unix"

// hush turns off the echo, and lets what is typed wait as it is for a reader in raw mode: without lines, and with the
// carriage return of the enter key.
func hush(fd int) error {
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	mode.Lflag &^= unix.ECHO | unix.ICANON
	mode.Iflag &^= unix.ICRNL
	return unix.IoctlSetTermios(fd, unix.TCSETS, mode)
}
