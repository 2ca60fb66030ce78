package client

import (
	"context"
	"io"
	"strings"
	"sync"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
)

// Stat describes one file, the link itself unless Follow is set.
func (c *Client) Stat(ctx context.Context, req guest.Stat) (guest.FileInfo, error) {
	const op = "guest: look at a file"
	var info guest.FileInfo
	if err := c.roundTrip(ctx, op, &req, &info); err != nil {
		return info, err
	}
	info.Path = req.Path
	return info, checkInfo(ctx, op, &info)
}

// ReadFile copies a regular file, or a part of it, to w, and returns the file's state when it was opened. It copies
// less than the size if the file shrinks meanwhile, never more. An error of w ends the call and is returned unchanged.
func (c *Client) ReadFile(ctx context.Context, req guest.ReadFile, w io.Writer) (guest.FileInfo, error) {
	const op = "guest: read a file"
	var info guest.FileInfo
	k, err := c.begin(ctx, op, &req, true)
	if err != nil {
		return info, err
	}
	defer k.abort()
	if err := k.expect(&info); err != nil {
		return info, err
	}
	info.Path = req.Path
	if err := checkInfo(ctx, op, &info); err != nil {
		return info, err
	}
	most := info.Size - min(info.Size, req.Offset)
	if req.Length > 0 {
		most = min(most, req.Length)
	}
	for n := uint64(0); ; {
		typ, body, err := k.must()
		if err != nil {
			return info, err
		}
		if typ == guest.TypeDone {
			var done guest.Done
			if guest.Parse(body, &done) != nil || done.Size != n {
				return info, k.wrap(wire.ErrProtocol)
			}
			return info, nil
		}
		data, err := k.data(typ, body, most-n)
		if err != nil {
			return info, err
		}
		n += uint64(len(data))
		if _, err := w.Write(data); err != nil {
			return info, err
		}
	}
}

// data returns the content of a Data message of at most most bytes.
func (k *call) data(typ guest.Type, body []byte, most uint64) ([]byte, error) {
	var m guest.Data
	if typ != guest.TypeData || guest.Parse(body, &m) != nil || uint64(len(m.Data)) > min(most, guest.MaxData) {
		return nil, k.wrap(wire.ErrProtocol)
	}
	return m.Data, nil
}

// WriteFile writes all of r to a regular file. An error of r cancels the call and is returned unchanged; an atomic
// write then leaves the old file.
func (c *Client) WriteFile(ctx context.Context, req guest.WriteFile, r io.Reader) error {
	k, err := c.begin(ctx, "guest: write a file", &req, false)
	if err != nil {
		return err
	}
	defer k.abort()
	n, err := k.sendAll(r)
	if err != nil {
		return err
	}
	if err := k.closeWrite(); err != nil {
		return err
	}
	var done guest.Done
	if err := k.expect(&done); err != nil {
		return err
	}
	if done.Size != n {
		return k.wrap(wire.ErrProtocol)
	}
	return nil
}

// maxEmptyReads bounds how often in a row a reader may return nothing.
const maxEmptyReads = 100

// pieces pools the buffers of sendAll: nearly every execution sends a file, and most are far smaller than a buffer.
var pieces = sync.Pool{New: func() any { return new([guest.MaxData]byte) }}

// sendAll sends the content of r up to io.EOF only: io.ErrUnexpectedEOF means that a request's body was truncated.
func (k *call) sendAll(r io.Reader) (sent uint64, err error) {
	room := pieces.Get().(*[guest.MaxData]byte)
	defer pieces.Put(room)
	buf := room[:]
	for idle := 0; idle < maxEmptyReads; idle++ {
		n, err := r.Read(buf)
		if n > 0 {
			idle = -1
			if err := k.sendData(buf[:n]); err != nil {
				return sent, err
			}
			sent += uint64(n)
		}
		if err == io.EOF {
			return sent, nil
		}
		if err != nil {
			return sent, err
		}
	}
	return sent, io.ErrNoProgress
}

// ListDir lists a folder, depth first, in the order of names, and calls fn with each entry; an error of fn ends the
// call and is returned. more means that there are more entries than the limit.
func (c *Client) ListDir(ctx context.Context, req guest.ListDir, fn func(guest.FileInfo) error) (more bool, err error) {
	const op = "guest: list a folder"
	k, err := c.begin(ctx, op, &req, true)
	if err != nil {
		return false, err
	}
	defer k.abort()
	limit := req.Limit
	if limit == 0 {
		limit = guest.DefaultListLimit
	}
	for {
		typ, body, err := k.must()
		if err != nil {
			return false, err
		}
		if typ == guest.TypeDone {
			var done guest.Done
			err := guest.Parse(body, &done)
			return done.More, k.wrap(err)
		}
		info, err := k.entry(typ, body)
		if err == nil && limit == 0 {
			err = k.wrap(wire.ErrProtocol)
		}
		if err != nil {
			return false, err
		}
		limit--
		if err := fn(info); err != nil {
			return false, err
		}
	}
}

// entry returns the entry of a FileInfo message, whose path must be relative and below its folder.
func (k *call) entry(typ guest.Type, body []byte) (guest.FileInfo, error) {
	var info guest.FileInfo
	if typ != guest.TypeFileInfo || guest.Parse(body, &info) != nil || !isEntryPath(info.Path) {
		return info, k.wrap(wire.ErrProtocol)
	}
	return info, checkInfo(k.ctx, k.op, &info)
}

// checkInfo refuses impossible values, and makes the guest's texts safe to print. Names and link targets stay
// unchanged.
func checkInfo(ctx context.Context, op string, info *guest.FileInfo) error {
	if info.Type > guest.FileSocket || info.Mode > 0o7777 || info.Size > 1<<63-1 || len(info.Target) >= guest.MaxPath {
		return broken(ctx, op, wire.ErrProtocol)
	}
	info.Err, info.Omitted = clean(info.Err), clean(info.Omitted)
	return nil
}

// isEntryPath reports whether a path can name an entry below a folder. A compromised guest may send anything.
func isEntryPath(path string) bool {
	if path == "" || len(path) >= guest.MaxPath || strings.IndexByte(path, 0) >= 0 {
		return false
	}
	for element := range strings.SplitSeq(path, "/") {
		if element == "" || element == "." || element == ".." {
			return false
		}
	}
	return true
}

func (c *Client) MakeDir(ctx context.Context, req guest.MakeDir) error {
	return c.roundTrip(ctx, "guest: make a folder", &req, &guest.Done{})
}

func (c *Client) Move(ctx context.Context, req guest.Move) error {
	return c.roundTrip(ctx, "guest: move a file", &req, &guest.Done{})
}

// Remove removes a file, or with Recursive a folder and its content.
func (c *Client) Remove(ctx context.Context, req guest.Remove) error {
	return c.roundTrip(ctx, "guest: remove a file", &req, &guest.Done{})
}

// Watch calls ready, which may be nil, once changes below a folder are watched. It then calls fn with each change until
// fn returns an error, which it returns, or ctx ends.
func (c *Client) Watch(ctx context.Context, req guest.Watch, ready func(), fn func(guest.Changed) error) error {
	k, err := c.begin(ctx, "guest: watch a folder", &req, true)
	if err != nil {
		return err
	}
	defer k.abort()
	if err := k.expect(&guest.Done{}); err != nil {
		return err
	}
	if ready != nil {
		ready()
	}
	for {
		var m guest.Changed
		if err := k.expect(&m); err != nil {
			return err
		}
		if !m.Overflow && (m.Op < guest.ChangeCreate || m.Op > guest.ChangeMode || m.Path != "." &&
			!isEntryPath(m.Path)) {
			return k.wrap(wire.ErrProtocol)
		}
		if err := fn(m); err != nil {
			return err
		}
	}
}
