package rootfs

import (
	"syscall"
	"testing"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// TestHalfSystem: after a failure there are no steps, so that no caller keeps a part of a root.
func TestHalfSystem(t *testing.T) {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &syscall.Rlimit{Max: limit.Max}); err != nil {
		t.Fatal(err)
	}
	steps, err := System("/", sandbox.DefaultUser)
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		t.Fatal(err)
	}
	if err == nil || steps != nil {
		t.Errorf("without descriptors: %d steps, %v", len(steps), err)
	}
}
