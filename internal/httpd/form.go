package httpd

import (
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

// maxPartHead limits what precedes the content of a part, besides what is read ahead of it.
const maxPartHead = 64 << 10

// partHeads is the body of a form, which limits what is read until a part begins.
type partHeads struct {
	io.Reader
	left int64 // bytes that may be read yet; negative is no limit
}

func (h *partHeads) Read(p []byte) (int, error) {
	if h.left < 0 {
		return h.Reader.Read(p)
	}
	if h.left == 0 {
		return 0, &sandbox.Error{Kind: sandbox.TooLarge,
			Msg: "the head of a part of the form is over the limit of " + sandbox.FormatBytes(maxPartHead)}
	}
	n, err := h.Reader.Read(p[:min(int64(len(p)), h.left)])
	h.left -= int64(n)
	return n, err
}

const notForm = "is not a form"

// Form is a form in the body of a request, whose parts are read one after the other.
type Form struct {
	heads *partHeads
	parts *multipart.Reader
}

// NewForm returns the form in a body.
func NewForm(body io.Reader, boundary string) *Form {
	heads := &partHeads{Reader: body}
	return &Form{heads, multipart.NewReader(heads, boundary)}
}

// Next returns the next part, and its content, which the caller reads to its end. The error is io.EOF after the last.
func (f *Form) Next() (part *multipart.Part, content io.Reader, err error) {
	f.heads.left = maxPartHead
	part, err = f.parts.NextPart()
	f.heads.left = -1
	if err == io.EOF {
		return nil, nil, err
	}
	if err != nil {
		return nil, nil, BodyError(err, notForm)
	}
	return part, Decoded{part, notForm}, nil
}
