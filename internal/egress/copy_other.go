//go:build !linux

package egress

import "syscall"

func copyRaw(syscall.RawConn, func([]byte) error) error { return errReset }
