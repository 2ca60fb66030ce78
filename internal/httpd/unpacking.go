package httpd

import (
	"io"
	"time"
)

// Unpacking counts the time of unpacking what a client sent as work for that client, without waits for the packed
// bytes. Numbers of bytes are no measure: hostile packed bytes take a hundred times as long as usual ones, and become
// nothing. It is for one goroutine.
type Unpacking struct {
	cost  cost
	begun time.Time // zero while nothing is unpacked
}

// Unpacking returns one for a body of the request.
func (w *Response) Unpacking() *Unpacking { return &Unpacking{cost: w.cost} }

// Packed returns a reader of the packed bytes, for what unpacks them.
func (u *Unpacking) Packed(r io.Reader) io.Reader { return packed{r, u} }

// PackedAt is Packed for what reads at offsets.
func (u *Unpacking) PackedAt(r io.ReaderAt) io.ReaderAt { return packedAt{r, u} }

// Unpacked returns a reader of the bytes that are unpacked from r. It fills what it reads into: some bodies become a
// few bytes for each read, and each would be a message to the sandbox.
func (u *Unpacking) Unpacked(r io.Reader) io.Reader { return unpacked{r, u} }

// rest counts the time since unpacking began, and returns a function that begins it again if it had begun.
func (u *Unpacking) rest() (again func()) {
	if u.begun.IsZero() {
		return func() {}
	}
	u.cost.add(time.Since(u.begun))
	return func() { u.begun = time.Now() }
}

type packed struct {
	io.Reader
	u *Unpacking
}

func (p packed) Read(b []byte) (int, error) {
	defer p.u.rest()()
	return p.Reader.Read(b)
}

type packedAt struct {
	io.ReaderAt
	u *Unpacking
}

func (p packedAt) ReadAt(b []byte, off int64) (int, error) {
	defer p.u.rest()()
	return p.ReaderAt.ReadAt(b, off)
}

type unpacked struct {
	io.Reader
	u *Unpacking
}

func (r unpacked) Read(b []byte) (n int, err error) {
	r.u.begun = time.Now()
	for n < len(b) && err == nil {
		var more int
		more, err = r.Reader.Read(b[n:])
		n += more
	}
	r.u.rest()
	r.u.begun = time.Time{}
	return n, err
}
