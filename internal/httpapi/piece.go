package httpapi

import (
	"encoding/base64"
	"strconv"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/internal/answer"
)

// appendPiece appends the data of an output event, a LoggedPiece, and so a Piece too, which drops nothing.
func appendPiece(b []byte, timeMS float64, offset int64, data []byte, dropped int64) []byte {
	b = append(b, `{"time_ms":`...)
	b = strconv.AppendFloat(b, timeMS, 'f', -1, 64)
	b = append(b, `,"offset":`...)
	b = strconv.AppendInt(b, offset, 10)
	b = append(b, `,"text":`...)
	b = answer.AppendText(b, data)
	if !utf8.Valid(data) {
		b = append(b, `,"base64":"`...)
		b = append(base64.StdEncoding.AppendEncode(b, data), '"')
	}
	if dropped != 0 {
		b = append(b, `,"dropped_bytes":`...)
		b = strconv.AppendInt(b, dropped, 10)
	}
	return append(b, '}')
}
