//go:build !linux

package systemd

import "time"

// monotonic returns 0: there is no systemd here.
func monotonic() (time.Duration, error) { return 0, nil }
