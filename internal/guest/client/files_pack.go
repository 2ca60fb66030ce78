package client

import (
	"context"
	"io"
	"math"

	"github.com/fumehood-dev/fumehood/internal/guest"
	"github.com/fumehood-dev/fumehood/internal/guest/wire"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// HasContent reports whether an entry of Pack is followed by its content.
func HasContent(info *guest.FileInfo) bool {
	return info.Type == guest.FileRegular && info.Err == "" && info.Omitted == ""
}

// Pack calls fn with each entry of the trees. If HasContent, content has exactly Size bytes, which fn need not read.
// Otherwise it is empty, and Err or Omitted may give the reason. If a file changed during reading, a second entry of
// the same path has an Err. One last entry, ".", with Omitted replaces entries beyond the list's limit. An error of fn
// ends the call and is returned. Pack enforces the request's limits against a hostile guest too.
func (c *Client) Pack(ctx context.Context, req guest.Pack, fn func(info guest.FileInfo,
	content io.Reader) error) error {
	k, err := c.begin(ctx, "guest: pack files", &req, true)
	if err != nil {
		return err
	}
	defer k.abort()
	p := &packing{call: k, bytes: orMost(req.MaxBytes), files: orMost(req.MaxFiles),
		omitted: 2*guest.DefaultListLimit + uint64(len(req.Paths))}
	for {
		typ, body, err := k.must()
		if err != nil {
			return err
		}
		if typ == guest.TypeDone {
			var done guest.Done
			if err := guest.Parse(body, &done); err != nil || !done.More {
				return k.wrap(err)
			}
			return fn(guest.FileInfo{Path: ".", Omitted: "there are more files than can be listed"}, empty{})
		}
		info, err := k.entry(typ, body)
		if err == nil {
			err = p.count(&info)
		}
		if err != nil {
			return err
		}
		content := &packedContent{call: k}
		if HasContent(&info) {
			content.left = info.Size
		}
		if err := fn(info, content); err != nil {
			return err
		}
		if _, err := io.Copy(io.Discard, content); err != nil {
			return err
		}
	}
}

func orMost(bound uint64) uint64 {
	if bound == 0 {
		return math.MaxInt64
	}
	return bound
}

// packing counts down what a guest may still send.
type packing struct {
	call    *call
	bytes   uint64
	files   uint64
	omitted uint64 // entries without content
}

func (p *packing) count(info *guest.FileInfo) error {
	left, size := &p.files, uint64(0)
	switch {
	case info.Err != "" || info.Omitted != "":
		left = &p.omitted
	case HasContent(info):
		size = info.Size
	}
	if *left == 0 || size > p.bytes {
		return p.call.wrap(wire.ErrProtocol)
	}
	*left--
	p.bytes -= size
	return nil
}

type packedContent struct {
	call *call
	left uint64
	rest []byte // of the last message, valid until the next
	err  error
}

func (r *packedContent) Read(p []byte) (int, error) {
	for len(r.rest) == 0 {
		if r.err != nil {
			return 0, r.err
		}
		if r.left == 0 {
			return 0, io.EOF
		}
		typ, body, err := r.call.must()
		if err == nil {
			r.rest, err = r.call.data(typ, body, r.left)
		}
		r.left -= uint64(len(r.rest))
		r.err = err
	}
	n := copy(p, r.rest)
	r.rest = r.rest[n:]
	return n, nil
}

type empty struct{}

func (empty) Read([]byte) (int, error) { return 0, io.EOF }

// Unpack makes the entries that next returns, in order, until io.EOF. The reader of a regular file must have Size
// bytes; others have none. Any other error of next or of a reader cancels the call and is returned; earlier entries
// stay.
func (c *Client) Unpack(ctx context.Context, req guest.Unpack, next func() (guest.FileInfo, io.Reader,
	error)) (guest.Unpacked, error) {
	var made guest.Unpacked
	k, err := c.begin(ctx, "guest: unpack files", &req, false)
	if err != nil {
		return made, err
	}
	defer k.abort()
	for {
		info, content, err := next()
		if err == io.EOF {
			break
		}
		if err != nil {
			return made, err
		}
		if err := k.sendEntry(&info, content); err != nil {
			return made, err
		}
	}
	if err := k.closeWrite(); err != nil {
		return made, err
	}
	err = k.expect(&made)
	return made, err
}

func (k *call) sendEntry(info *guest.FileInfo, content io.Reader) error {
	if err := k.send(info, false); err != nil || info.Type != guest.FileRegular || info.Size == 0 {
		return err
	}
	n, err := k.sendAll(io.LimitReader(content, int64(min(info.Size, math.MaxInt64))))
	if err == nil && n < info.Size {
		err = &sandbox.Error{Kind: sandbox.Invalid, Op: k.op, Msg: "the content is shorter than its size"}
	}
	return err
}
