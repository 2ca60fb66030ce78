package server

import (
	"io"
	"sync/atomic"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// tree serves the file calls: system calls in the sandbox's own root, as the code's user. A file call can do only what the
// code can do. Where the code's links or races lead it is the code's own.
type tree struct {
	threads   *threads
	workspace string      // base of relative paths
	walks     atomic.Bool // the kernel has no openat2
}

func newTree(user sandbox.User) *tree {
	return &tree{threads: newThreads(user), workspace: sandbox.Workspace}
}

// close ends the tree's threads and waits for them. Later calls fail.
func (t *tree) close() { t.threads.close() }

func (s *Server) stat(c *call) error {
	var req guest.Stat
	if err := c.parse(&req); err != nil {
		return err
	}
	info, err := s.files.stat(&req)
	return c.finish(&info, "look at", req.Path, err)
}

func (s *Server) readFile(c *call) error {
	var req guest.ReadFile
	if err := c.parse(&req); err != nil {
		return err
	}
	n, err := s.files.readFile(&req, c)
	return c.finish(&guest.Done{Size: n}, "read", req.Path, err)
}

func (s *Server) writeFile(c *call) error {
	var req guest.WriteFile
	if err := c.parse(&req); err != nil {
		return err
	}
	n, err := s.files.writeFile(&req, c)
	return c.finishUpload(&guest.Done{Size: n}, "write", req.Path, err)
}

func (s *Server) listDir(c *call) error {
	var req guest.ListDir
	if err := c.parse(&req); err != nil {
		return err
	}
	more, err := s.files.listDir(&req, c)
	return c.finish(&guest.Done{More: more}, "list", req.Path, err)
}

func (s *Server) makeDir(c *call) error {
	var req guest.MakeDir
	if err := c.parse(&req); err != nil {
		return err
	}
	return c.finish(&guest.Done{}, "make folder", req.Path, s.files.makeDir(&req))
}

func (s *Server) move(c *call) error {
	var req guest.Move
	if err := c.parse(&req); err != nil {
		return err
	}
	return c.finish(&guest.Done{}, "move", req.From, s.files.move(&req))
}

func (s *Server) remove(c *call) error {
	var req guest.Remove
	if err := c.parse(&req); err != nil {
		return err
	}
	return c.finish(&guest.Done{}, "remove", req.Path, s.files.remove(&req, c))
}

func (s *Server) watch(c *call) error {
	var req guest.Watch
	if err := c.parse(&req); err != nil {
		return err
	}
	return fileError("watch", req.Path, s.files.watch(&req, c))
}

func (s *Server) pack(c *call) error {
	var req guest.Pack
	if err := c.parse(&req); err != nil {
		return err
	}
	more, err := s.files.pack(&req, c)
	return c.finish(&guest.Done{More: more}, "pack", req.Base, err)
}

func (s *Server) unpack(c *call) error {
	var req guest.Unpack
	if err := c.parse(&req); err != nil {
		return err
	}
	made, err := s.files.unpack(&req, c)
	return c.finishUpload(&made, "unpack", req.Base, err)
}

// finish sends the last message of a successful file call, and otherwise explains the failure.
func (c *call) finish(m guest.Message, op, path string, err error) error {
	if err != nil {
		return fileError(op, path, err)
	}
	return c.answer(m)
}

// finishUpload is finish for a call in which the host may still be sending. It sends the error and then resets the stream:
// otherwise the host would wait for credit for ever and never read the answer.
func (c *call) finishUpload(m guest.Message, op, path string, err error) error {
	err = fileError(op, path, err)
	if err == nil || err == errCanceled || err == errMalformed {
		return c.finish(m, op, path, err)
	}
	if err := c.answer(failure(err)); err != nil {
		return err
	}
	return errCanceled // resets the stream after the answer
}

// next receives the host's next message: io.EOF after its last, errCanceled if it has canceled the call.
func (c *call) next() (guest.Type, []byte, error) {
	typ, body, err := c.recv()
	if err != nil && err != io.EOF {
		err = errCanceled
	}
	return typ, body, err
}

// nextData receives the host's next piece of content, or io.EOF. The bytes are valid until the next call.
func (c *call) nextData() ([]byte, error) {
	typ, body, err := c.next()
	if err != nil {
		return nil, err
	}
	var m guest.Data
	if typ != guest.TypeData || guest.Parse(body, &m) != nil || len(m.Data) > guest.MaxData {
		return nil, errMalformed
	}
	return m.Data, nil
}

// wanted fails once the host has canceled the call.
func (c *call) wanted() error {
	select {
	case <-c.canceled():
		return errCanceled
	default:
		return nil
	}
}
