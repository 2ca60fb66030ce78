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

// unpack returns a stream whose messages are not packed, so that its size is known before it is decoded. It leaves what
// is no whole envelope to connect.
func unpack(h http.Header, stream []byte) (out []byte, err error) {
	h.Del(headerConnectEncoding)
	h.Del(headerGRPCEncoding)
	for len(stream) >= envelopeHead {
		flags, rest := stream[0], stream[envelopeHead:]
		size := int64(binary.BigEndian.Uint32(stream[1:]))
		if size > int64(len(rest)) {
			break
		}
		var message []byte
		if message, stream = rest[:size], rest[size:]; flags&envelopePacked != 0 {
			if message, err = gunzip(message, maxMessage-int64(len(out))); err != nil {
				return nil, err
			}
		}
		out = append(out, flags&^envelopePacked)
		out = append(binary.BigEndian.AppendUint32(out, uint32(len(message))), message...)
	}
	return append(out, stream...), nil
}

// gunzip returns what gzip has packed, of at most so many bytes.
func gunzip(packed []byte, most int64) ([]byte, error) {
	z, err := gzip.NewReader(bytes.NewReader(packed))
	if err != nil {
		return nil, httpd.BodyError(err, notGzip)
	}
	return io.ReadAll(httpd.Bound(httpd.Decoded{Reader: z, Malformed: notGzip}, most))
}
