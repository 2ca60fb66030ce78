package server

import (
	"io"
	"os"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// adoptFiles is the number of descriptors of Adopt: the channel, stdout, stderr.
const adoptFiles = 3

// serveAdopt serves one Adopt.
func (s *Server) serveAdopt(rw io.ReadWriteCloser) {
	late := time.AfterFunc(guest.PreambleTimeout, func() { rw.Close() })
	defer late.Stop()
	r := &rightsReader{rw: rw}
	defer r.close()
	typ, body, err := wire.ReadMessage(r, nil)
	var m guest.Adopt
	if err != nil || guest.Type(typ) != guest.TypeAdopt || guest.Parse(body, &m) != nil {
		return
	}
	var answer guest.Message = &guest.Started{PID: m.PID}
	if err := s.adopt(&m, r); err != nil {
		answer = failure(err)
	}
	b := guest.Append(nil, answer)
	rw.Write(append(wire.AppendMessageHeader(nil, uint8(answer.MessageType()), len(b)), b...))
}

// adopt makes a child of the guest that the guest did not start the parked interpreter.
func (s *Server) adopt(m *guest.Adopt, r *rightsReader) error {
	if len(r.fds) != adoptFiles || len(m.Argv) == 0 {
		return invalid("adopt", "Adopt needs a command line and three descriptors")
	}
	if !s.cfg.Init {
		return &guest.Failed{Kind: sandbox.Unsupported, Op: "adopt", Msg: "the guest is not pid 1"}
	}
	if err := s.table.enter(); err != nil { // otherwise the reaper treats it as an orphan
		return err
	}
	defer s.table.spawning.Unlock()
	pid := int(m.PID)
	if _, err := waitid(unix.P_PID, pid, unix.WNOHANG); err != nil || s.table.holds(pid) {
		return &guest.Failed{Kind: sandbox.NotFound, Op: "adopt", Msg: "the guest has no such child"}
	}
	s.table.unpark()
	s.table.begun = true
	files := r.take()
	s.table.parked = &parked{argv: m.Argv, dir: m.Dir, user: s.userOf(m.User), pid: pid, channel: files[0],
		outputs: [2]*os.File{files[1], files[2]}}
	return nil
}

// holds reports whether a pid belongs to an execution.
func (t *table) holds(pid int) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.byPID[pid] != nil
}

// rightsReader reads a unix socket and keeps the descriptors of its first bytes.
type rightsReader struct {
	rw    io.ReadWriteCloser
	first bool // the first bytes were read
	fds   []int
}

func (r *rightsReader) Read(p []byte) (int, error) {
	if r.first {
		return r.rw.Read(p)
	}
	r.first = true
	conn, ok := r.rw.(syscall.Conn)
	if !ok {
		return 0, errMalformed
	}
	raw, err := conn.SyscallConn()
	if err != nil {
		return 0, err
	}
	oob := make([]byte, unix.CmsgSpace(adoptFiles*4))
	var n, oobn, flags int
	if waiting := raw.Read(func(fd uintptr) bool {
		n, oobn, flags, _, err = unix.Recvmsg(int(fd), p, oob, unix.MSG_CMSG_CLOEXEC)
		return err != unix.EAGAIN && err != unix.EINTR
	}); waiting != nil {
		return 0, waiting
	}
	if err != nil {
		return 0, err
	}
	messages, err := unix.ParseSocketControlMessage(oob[:oobn])
	for _, m := range messages {
		if fds, err := unix.ParseUnixRights(&m); err == nil {
			r.fds = append(r.fds, fds...)
		}
	}
	if err != nil || flags&unix.MSG_CTRUNC != 0 {
		return 0, errMalformed
	}
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// take returns the descriptors as non-blocking files.
func (r *rightsReader) take() (files [adoptFiles]*os.File) {
	for i, fd := range r.fds {
		unix.SetNonblock(fd, true)
		files[i] = os.NewFile(uintptr(fd), "adopted")
	}
	r.fds = nil
	return files
}

func (r *rightsReader) close() {
	for _, fd := range r.fds {
		unix.Close(fd)
	}
}
