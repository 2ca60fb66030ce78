package server

import (
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// Limits of the background output of one process. A host that reads it spends CPU for it, also while nothing runs, so
// its writers wait when they write faster.
const (
	keptBackground  = 64 << 10 // bytes; beyond, the oldest are dropped
	burstBackground = 64 << 10 // bytes, and then a pause
	pauseBackground = 50 * time.Millisecond

	maxOldPipes = 64 // pipes that a process has left to others; beyond, it keeps its own
)

// background is what a process with a channel has for its background output.
type background struct {
	o     *output    // the stream; its file is the guest's end of the socket
	turn  sync.Mutex // of the writers; guards burst
	burst int        // bytes since the last pause
}

// openBackground makes the child's next descriptor a socket, and the guest's end of it the stream.
func (f *childFiles) openBackground(p *process) error {
	fds, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		return failed("open a socket", err.(syscall.Errno))
	}
	unix.SetNonblock(fds[0], true)
	own := os.NewFile(uintptr(fds[0]), "socket")
	f.child, f.ends, f.own = append(f.child, fds[1]), append(f.ends, fds[1]), append(f.own, own)
	p.background.o = newOutput(p, sandbox.Background, own, keptBackground, true)
	p.outputs[3] = p.background.o
	return nil
}

// serve reads the process's messages until it closes the socket.
func (b *background) serve() {
	message := make([]byte, 1+guest.MaxData)
	for {
		n, err := b.o.file.Read(message)
		if err != nil || n == 0 {
			break
		}
		switch message[0] {
		case guest.BackgroundText:
			b.write(message[1:n])
		case guest.NewPipes:
			_ = b.answer(b.o.p.newPipes()) // it fails once the process has ended
		}
	}
	b.o.file.Close()
	p := b.o.p
	p.mu.Lock()
	defer p.mu.Unlock()
	b.o.closed = true
	p.ended()
}

// write adds output, and waits if it comes too fast.
func (b *background) write(data []byte) {
	b.turn.Lock()
	defer b.turn.Unlock()
	p := b.o.p
	p.mu.Lock()
	first, second := b.o.ring.Reserve(len(data))
	copy(second, data[copy(first, data):])
	b.o.ring.Commit(len(data))
	if over := b.o.ring.Len() - b.o.limit; over > 0 {
		b.o.consume(over)
	}
	p.changed.Broadcast()
	p.mu.Unlock()
	if b.burst += len(data); b.burst >= burstBackground {
		b.burst = 0
		time.Sleep(pauseBackground)
	}
}

// answer sends the process's ends of new pipes, and closes the guest's copies. Without pipes, it sends none.
func (b *background) answer(fds []int) error {
	defer func() {
		for _, fd := range fds {
			unix.Close(fd)
		}
	}()
	conn, ok := b.o.file.(syscall.Conn)
	if !ok {
		return os.ErrInvalid
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return err
	}
	var rights []byte
	if len(fds) > 0 {
		rights = unix.UnixRights(fds...)
	}
	waiting := raw.Write(func(fd uintptr) bool {
		err = unix.Sendmsg(int(fd), []byte{guest.NewPipes}, rights, nil, unix.MSG_NOSIGNAL|unix.MSG_DONTWAIT)
		return err != unix.EAGAIN
	})
	if waiting != nil {
		return waiting
	}
	return err
}

// replacement is a new source of an output.
type replacement struct {
	file *pipeReader
	done chan struct{} // closed once the output reads it, or has ended
	used bool          // the output reads it
}

// newPipes gives stdout and stderr new pipes, and returns the process's ends of them. What the process had written to
// the old ones is output; what others write to them from now on is background output. It returns nil if the process
// has left too many to others, or has ended.
func (p *process) newPipes() (child []int) {
	if p.oldPipes() >= maxOldPipes {
		return nil
	}
	var own [2]*os.File
	for i := range own {
		fd, file, err := pipe(true)
		if err != nil {
			for _, fd := range child {
				unix.Close(fd)
				own[0].Close()
			}
			return nil
		}
		child, own[i] = append(child, fd), file
	}
	for i, file := range own {
		if !p.outputs[i].replace(newPipeReader(file)) {
			file.Close() // the process has ended
		}
	}
	return child
}

func (p *process) oldPipes() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return len(p.old)
}

// replace has the output read another pipe once it has read what is in this one. It returns false if the output has
// ended.
func (o *output) replace(file *pipeReader) bool {
	next := &replacement{file: file, done: make(chan struct{})}
	o.p.mu.Lock()
	if o.closed || o.p.forgotten {
		o.p.mu.Unlock()
		return false
	}
	o.next = next
	o.file.SetReadDeadline(time.Unix(1, 0)) // wakes the pump
	o.p.mu.Unlock()
	<-next.done
	return next.used
}

// change changes to the new pipe, if there is one. Only the pump calls it, after its read was cut short.
func (o *output) change() bool {
	o.p.mu.Lock()
	next := o.next
	o.p.mu.Unlock()
	if next == nil {
		return false
	}
	ended := o.drain()
	p, old := o.p, o.file
	p.mu.Lock()
	defer p.mu.Unlock()
	o.next = nil
	next.file.taken = o.ring.End()
	o.file = next.file
	old.SetReadDeadline(time.Time{})
	if ended || !p.s.run(func() { p.background.follow(old) }) {
		old.Close()
	} else {
		p.old = append(p.old, old)
		p.pending++
	}
	p.awaitOutput() // the process may have ended meanwhile
	if p.forgotten {
		p.setReadDeadlines(time.Unix(1, 0))
	}
	next.used = true
	close(next.done)
	return true
}

// follow reads a pipe that the process has left to others.
func (b *background) follow(file source) {
	buf := make([]byte, readLeast)
	for {
		n, err := file.Read(buf)
		if n > 0 {
			b.write(buf[:n])
		}
		if err != nil {
			break
		}
	}
	file.Close()
	p := b.o.p
	p.mu.Lock()
	defer p.mu.Unlock()
	for i, old := range p.old {
		if old == file {
			p.old = append(p.old[:i], p.old[i+1:]...)
			break
		}
	}
	p.ended()
}
