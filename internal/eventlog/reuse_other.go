//go:build !linux

package eventlog

import "os"

// keepSpare reports false: no system call here renames a file only to a free name.
func (f *Folder) keepSpare(doomed) bool { return false }

func (f *Folder) reuse(string) (*os.File, int64) { return nil, 0 }
