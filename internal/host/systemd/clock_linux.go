package systemd

import (
	"time"

	"golang.org/x/sys/unix"
)

// monotonic returns the time since the host's start, without its sleep (clock_gettime(2)).
func monotonic() (time.Duration, error) {
	var now unix.Timespec
	err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &now)
	return time.Duration(now.Nano()), err
}
