package main

import "io"

// programEnds returns a channel that is closed when the program that started a private server has ended: the kernel
// closes its end of standard input, however it ended. The channel of any other server stays open. The reader ends with
// this process.
func (a *app) programEnds(f *serveFlags) <-chan struct{} {
	ended := make(chan struct{})
	if f.living.private && a.Stdin != nil {
		go func() {
			defer close(ended)
			_, _ = io.Copy(io.Discard, a.Stdin)
		}()
	}
	return ended
}
