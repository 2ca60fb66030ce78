package httpd

import (
	"context"
	"errors"
	"io"
	"mime/multipart"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// BodyError returns an error of the body itself unchanged, and any other as one of its decoder.
func BodyError(err error, malformed string) error {
	if sandbox.KindOf(err) != sandbox.Internal {
		return err
	}
	return sandbox.Invalidf("body", "%s", malformed)
}

// Decoded is the content of a body, with the errors of BodyError.
type Decoded struct {
	io.Reader
	Malformed string // describes an error of the decoder
}

func (d Decoded) Read(p []byte) (int, error) {
	n, err := d.Reader.Read(p)
	if err != nil && !errors.Is(err, io.EOF) {
		err = BodyError(err, d.Malformed)
	}
	return n, err
}

// Limits of what is parsed and not kept. A small body that is packed can become a lot of it.
const (
	maxPartHead = 16 << 10 // before the content of a part, besides what is read ahead of it
	maxHeads    = 64 << 20 // of all parts of a form, and what is read ahead
	maxSkipped  = 1 << 20  // content of parts that have no meaning
	maxParts    = 10_000   // of a form, each of which takes some microseconds, however short it is
)

// headBytes is the most memory of the head of a part: its lines, of five bytes or more, become the entries of a map.
const headBytes = 512 << 10

// partHeads is the body of a form, which limits what is read until a part begins.
type partHeads struct {
	io.Reader
	left int64 // bytes that may be read yet; negative is no limit
	all  int64 // for all heads
}

func (h *partHeads) Read(p []byte) (int, error) {
	if h.left < 0 {
		return h.Reader.Read(p)
	}
	if h.left == 0 {
		return 0, &sandbox.Error{Kind: sandbox.TooLarge,
			Msg: "the head of a part of the form is over the limit of " + sandbox.FormatBytes(maxPartHead)}
	}
	if h.all <= 0 {
		return 0, overForm("the heads of all parts", maxHeads)
	}
	n, err := h.Reader.Read(p[:min(int64(len(p)), h.left)])
	h.left -= int64(n)
	h.all -= int64(n)
	return n, err
}

func overForm(what string, most int64) error {
	return &sandbox.Error{Kind: sandbox.TooLarge, Msg: what + " of the form are over the limit of " +
		sandbox.FormatBytes(most), Fix: "send several forms"}
}

const notForm = "is not a form"

// Form is a form in the body of a request, whose parts are read one after the other.
type Form struct {
	heads     *partHeads
	unpacking *Unpacking
	parts     *multipart.Reader
	count     int
	skipped   int64
}

// NewForm returns the form in a body of a request, until whose end the memory of a head counts.
func (s *Server) NewForm(ctx context.Context, w *Response, body io.Reader, boundary string) (*Form, error) {
	if err := s.Reserve(ctx, w, headBytes); err != nil {
		return nil, err
	}
	return newForm(w.Unpacking(), body, boundary), nil
}

func newForm(u *Unpacking, body io.Reader, boundary string) *Form {
	heads := &partHeads{Reader: u.Packed(body), all: maxHeads}
	return &Form{heads: heads, unpacking: u, parts: multipart.NewReader(heads, boundary)}
}

// Next returns the next part, and its content, which the caller reads to its end. The error is io.EOF after the last.
func (f *Form) Next() (part *multipart.Part, content io.Reader, err error) {
	f.heads.left = maxPartHead
	part, err = f.parts.NextPart()
	f.heads.left = -1
	if err == io.EOF {
		return nil, nil, err
	}
	if f.count++; f.count > maxParts {
		return nil, nil, &sandbox.Error{Kind: sandbox.TooLarge, Msg: "the form has more than 10,000 parts",
			Fix: "send several forms"}
	}
	if err != nil {
		return nil, nil, BodyError(err, notForm)
	}
	return part, Decoded{f.unpacking.Unpacked(part), notForm}, nil
}

// Skip reads the content of a part that has no meaning here. All of them may have 1 MiB.
func (f *Form) Skip(content io.Reader) error {
	n, err := io.Copy(io.Discard, io.LimitReader(content, maxSkipped-f.skipped+1))
	if f.skipped += n; err == nil && f.skipped > maxSkipped {
		err = overForm("the parts that are no files", maxSkipped)
	}
	return err
}
