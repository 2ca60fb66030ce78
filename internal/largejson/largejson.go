// Package largejson encodes JSON with long texts as it is written.
package largejson

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/fumehood-dev/fumehood/sandbox"
)

// JSON is a value as JSON, whose long texts are encoded as they are written. So memory holds a large value once,
// unencoded: its JSON is up to six times as long, and an ordinary encoder holds several such buffers.
type JSON struct {
	frames [][]byte // the JSON around the long texts: one more than those
	long   []any    // string, []byte, or json.RawMessage, which is JSON already
}

// longText is the least length of a long text, and how much of one is encoded at a time.
const longText = 16 << 10

// Shorter texts stay in the JSON up to mostShort bytes together. Beyond that, texts are long from leastLong on: code
// can make thousands of short ones, whose JSON is six times as long.
const (
	mostShort = 256 << 10
	leastLong = 256
)

// writeSize is how much is written at a time.
const writeSize = 64 << 10

// Layout replaces the long texts of a value by marks, in the order of its JSON.
type Layout struct {
	mark string
	text JSON
	ends [][]byte // the JSON of each mark

	short int // bytes of texts that are not long
}

// NewLayout chooses a random mark, which the value cannot hold.
func NewLayout() *Layout { return &Layout{mark: string(sandbox.NewID())} }

// isLong reports whether a text of so many bytes is taken out.
func (l *Layout) isLong(n int) bool {
	if n > longText || n > leastLong && l.short+n > mostShort {
		return true
	}
	l.short += n
	return false
}

// String takes out a long text.
func (l *Layout) String(s *string) {
	if l.isLong(len(*s)) {
		l.text.long = append(l.text.long, *s)
		*s = l.mark
		l.ends = append(l.ends, marshal(*s))
	}
}

// Bytes takes out long bytes, which are base64 in JSON.
func (l *Layout) Bytes(b *[]byte) {
	if l.isLong(len(*b)) {
		l.text.long = append(l.text.long, *b)
		*b = []byte(l.mark)
		l.ends = append(l.ends, marshal(*b))
	}
}

// Map takes out the long texts of a JSON object, and of objects in it.
func (l *Layout) Map(m map[string]any) {
	for _, name := range slices.Sorted(maps.Keys(m)) { // as encoding/json sorts them
		switch v := m[name].(type) {
		case string:
			l.String(&v)
			m[name] = v
		case []byte:
			l.Bytes(&v)
			m[name] = v
		case json.RawMessage:
			if l.isLong(len(v)) {
				l.text.long = append(l.text.long, v)
				m[name] = l.mark
				l.ends = append(l.ends, marshal(l.mark))
			}
		case map[string]any:
			l.Map(v)
		}
	}
}

// Around finishes the layout with the value, which now holds the marks.
func (l *Layout) Around(v any) *JSON {
	rest := marshal(v)
	for _, mark := range l.ends {
		before, after, found := bytes.Cut(rest, mark)
		if !found {
			panic("largejson: the long texts are not in the order of their JSON")
		}
		l.text.frames = append(l.text.frames, before)
		rest = after
	}
	l.text.frames = append(l.text.frames, append(rest, '\n'))
	return &l.text
}

// Stamp inserts a field time_ms at the start of an object.
func (t *JSON) Stamp(timeMS float64) {
	stamp := marshal(struct {
		TimeMS float64 `json:"time_ms"`
	}{timeMS})
	t.frames[0] = append(append(stamp[:len(stamp)-1], ','), t.frames[0][1:]...)
}

// Size returns the bytes held in memory.
func (t *JSON) Size() (n int64) {
	for _, frame := range t.frames {
		n += int64(len(frame))
	}
	for _, long := range t.long {
		switch long := long.(type) {
		case string:
			n += int64(len(long))
		case []byte:
			n += int64(len(long))
		case json.RawMessage:
			n += int64(len(long))
		}
	}
	return n
}

// Length returns the length of the JSON.
func (t *JSON) Length() int64 {
	var n counter
	_ = t.EncodeTo(&n) // it never fails
	return int64(n)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

// EncodeTo writes the JSON and a newline.
func (t *JSON) EncodeTo(w io.Writer) error {
	if len(t.long) == 0 {
		_, err := w.Write(t.frames[0])
		return err
	}
	out := bufio.NewWriterSize(w, writeSize)
	for i, long := range t.long {
		out.Write(t.frames[i]) // Flush returns the error
		var err error
		switch long := long.(type) {
		case string:
			err = writeString(out, long)
		case []byte:
			out.WriteByte('"')
			encoder := base64.NewEncoder(base64.StdEncoding, out)
			if _, err = encoder.Write(long); err == nil {
				err = encoder.Close()
			}
			out.WriteByte('"')
		case json.RawMessage:
			for piece := range slices.Chunk(long, longText) {
				out.Write(piece)
			}
		}
		if err != nil {
			return err
		}
	}
	out.Write(t.frames[len(t.long)])
	return out.Flush()
}

// writeString writes a JSON string in parts, cut between characters.
func writeString(out *bufio.Writer, s string) error {
	out.WriteByte('"')
	for len(s) > 0 {
		n := min(longText, len(s))
		for back := 1; n < len(s) && !utf8.RuneStart(s[n]) && back < utf8.UTFMax; back++ {
			if utf8.RuneStart(s[n-back]) {
				n -= back
				break
			}
		}
		quoted := marshal(s[:n])
		if _, err := out.Write(quoted[1 : len(quoted)-1]); err != nil {
			return err
		}
		s = s[n:]
	}
	return out.WriteByte('"')
}

// marshal returns the JSON of a value, which always has one.
func marshal(v any) []byte {
	var out bytes.Buffer
	Encode(&out, v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// Encode writes v and a newline in one Write. The type of v always has a JSON form.
func Encode(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // answers are never HTML: nosniff says so
	if err := enc.Encode(v); err != nil {
		panic("largejson: " + err.Error())
	}
}
