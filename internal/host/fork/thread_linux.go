package fork

import (
	"runtime"

	"golang.org/x/sys/unix"
)

// OnOwnThread calls do on a thread that ends with it, so do may change the thread. It is never the process's first
// thread: the Go runtime cannot end that one, and /proc/self is that thread's.
func OnOwnThread(do func()) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			OnOwnThread(do) // this thread is locked, so another runs it
			runtime.UnlockOSThread()
			return
		}
		do() // never unlocked: the thread ends with the goroutine
	}()
	<-done
}
