package e2bapi

import (
	"bytes"
	"compress/gzip"
	"encoding/binary"
	"io"
	"net/http"

	"github.com/fumehood-dev/fumehood/internal/httpd"
)

// Headers that name the compression of the messages of a stream: of Connect and of gRPC.
const (
	headerConnectEncoding = "Connect-Content-Encoding"
	headerGRPCEncoding    = "Grpc-Encoding"
)

// An envelope is one message of a stream: a byte of flags, its size and its bytes. The flag is that of packed bytes.
const (
	envelopeHead   = 5
	envelopePacked = 1
)

// streamed reports whether the messages of a stream are packed by gzip. Connect refuses other encodings.
func streamed(h http.Header) bool {
	return h.Get(headerConnectEncoding) == "gzip" || h.Get(headerGRPCEncoding) == "gzip"
}

// unpack returns a stream whose first message is not packed, so that its size is known before it is decoded. Connect
// refuses further messages.
func unpack(w *httpd.Response, h http.Header, stream []byte) (out []byte, err error) {
	h.Del(headerConnectEncoding)
	h.Del(headerGRPCEncoding)
	if len(stream) < envelopeHead || stream[0]&envelopePacked == 0 {
		return stream, nil
	}
	size, rest := int64(binary.BigEndian.Uint32(stream[1:])), stream[envelopeHead:]
	if size > int64(len(rest)) {
		return stream, nil // connect refuses an incomplete message
	}
	message, err := unpackAll(w, rest[:size])
	if err != nil {
		return nil, err
	}
	out = binary.BigEndian.AppendUint32([]byte{stream[0] &^ envelopePacked}, uint32(len(message)))
	return append(append(out, message...), rest[size:]...), nil
}

// unpackAll returns what gzip has packed, of at most maxMessage bytes.
func unpackAll(w *httpd.Response, packed []byte) ([]byte, error) {
	message, err := gunzip(w, bytes.NewReader(packed), maxMessage)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(message)
}

const notGzip = "is not gzip"

// gunzip returns a reader of what gzip has packed, of at most so many bytes.
func gunzip(w *httpd.Response, packed io.Reader, most int64) (io.Reader, error) {
	u := w.Unpacking()
	z, err := gzip.NewReader(u.Packed(packed))
	if err != nil {
		return nil, httpd.BodyError(err, notGzip)
	}
	return httpd.Bound(w.Working(httpd.Decoded{Reader: u.Unpacked(z), Malformed: notGzip}), most), nil
}
