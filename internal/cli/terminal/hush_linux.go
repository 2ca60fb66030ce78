package terminal

import "golang.org/x/sys/unix"

// hush turns off echo, line editing and the translation of carriage returns. Keys that the user types wait unchanged
// for the next reader in raw mode.
func hush(fd int) error {
	mode, err := unix.IoctlGetTermios(fd, unix.TCGETS)
	if err != nil {
		return err
	}
	mode.Lflag &^= unix.ECHO | unix.ICANON
	mode.Iflag &^= unix.ICRNL
	return unix.IoctlSetTermios(fd, unix.TCSETS, mode)
}
