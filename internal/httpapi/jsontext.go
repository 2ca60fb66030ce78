package httpapi

import (
	"bufio"
	"bytes"
	"encoding/base64"
	"encoding/json"
	"io"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/glovebox-dev/glovebox/sandbox"
)

// jsonText is a value as JSON, whose long texts are encoded while they are written. So an answer of many megabytes is held once, as
// what it says: its JSON is up to six times as long, and an encoder that makes it whole holds several such buffers.
type jsonText struct {
	frames [][]byte // the JSON around the long texts: one more than there are of those
	long   []any    // string or []byte
}

// longText is from where on a text is long. It is also how much of one is encoded at a time.
const longText = 16 << 10

// layout takes the long texts out of a value and leaves marks in their place, in the order of its JSON.
type layout struct {
	mark string
	text jsonText
	ends [][]byte // the JSON of each mark
}

// newLayout chooses a mark that the value, which is there already, cannot hold.
func newLayout() *layout { return &layout{mark: string(sandbox.NewID())} }

func (l *layout) string(s *string) {
	if len(*s) > longText {
		l.text.long = append(l.text.long, *s)
		*s = l.mark
		l.ends = append(l.ends, marshal(*s))
	}
}

func (l *layout) bytes(b *[]byte) {
	if len(*b) > longText {
		l.text.long = append(l.text.long, *b)
		*b = []byte(l.mark)
		l.ends = append(l.ends, marshal(*b))
	}
}

// around finishes the layout with the value as it is now.
func (l *layout) around(v any) *jsonText {
	rest := marshal(v)
	for _, mark := range l.ends {
		before, after, found := bytes.Cut(rest, mark)
		if !found {
			panic("httpapi: the long texts are not in the order of their JSON")
		}
		l.text.frames = append(l.text.frames, before)
		rest = after
	}
	l.text.frames = append(l.text.frames, append(rest, '\n'))
	return &l.text
}

// layOut gives the JSON of an answer, which is spoilt by it.
func (a *Answer) layOut() *jsonText {
	l := newLayout()
	l.string(&a.Stdout)
	l.string(&a.Stderr)
	l.bytes(&a.StdoutBase64)
	l.bytes(&a.StderrBase64)
	if a.Error != nil {
		exception := *a.Error
		a.Error = &exception
		l.string(&exception.Name)
		l.string(&exception.Value)
		l.string(&exception.Traceback)
	}
	for i := range a.Files {
		l.bytes(&a.Files[i].ContentBase64)
	}
	return l.around(a)
}

// layOut gives the JSON of an answer, which is spoilt by it.
func (a *ExecuteAnswer) layOut() *jsonText {
	l := newLayout()
	l.string(&a.Output)
	if a.Error != nil {
		l.string(a.Error)
	}
	for _, path := range slices.Sorted(maps.Keys(a.Files)) { // as encoding/json sorts them
		content := a.Files[path]
		l.bytes(&content)
		a.Files[path] = content
	}
	return l.around(a)
}

// size is how many bytes are held.
func (t *jsonText) size() (n int64) {
	for _, frame := range t.frames {
		n += int64(len(frame))
	}
	for _, long := range t.long {
		switch long := long.(type) {
		case string:
			n += int64(len(long))
		case []byte:
			n += int64(len(long))
		}
	}
	return n
}

// length is that of the whole JSON.
func (t *jsonText) length() int64 {
	var n counter
	_ = t.writeTo(&n) // it never fails
	return int64(n)
}

type counter int64

func (c *counter) Write(p []byte) (int, error) {
	*c += counter(len(p))
	return len(p), nil
}

func (t *jsonText) writeTo(w io.Writer) error {
	if len(t.long) == 0 {
		_, err := w.Write(t.frames[0])
		return err
	}
	out := bufio.NewWriterSize(w, paceBytes)
	for i, long := range t.long {
		out.Write(t.frames[i]) // its error sticks and comes with Flush
		var err error
		switch long := long.(type) {
		case string:
			err = writeString(out, long)
		case []byte:
			out.WriteByte('"')
			encoder := base64.NewEncoder(base64.StdEncoding, out)
			encoder.Write(long)
			err = encoder.Close()
			out.WriteByte('"')
		}
		if err != nil {
			return err
		}
	}
	out.Write(t.frames[len(t.long)])
	return out.Flush()
}

// writeString writes a JSON string, a part at a time. It cuts between characters.
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

// marshal gives the JSON of a value of this package, each of which has one.
func marshal(v any) []byte {
	var out bytes.Buffer
	encodeJSON(&out, v)
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

// encodeJSON writes v and a newline, in one Write. Only types of this package are encoded, and each has a JSON form.
func encodeJSON(w io.Writer, v any) {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false) // answers are never HTML: nosniff says so
	if err := enc.Encode(v); err != nil {
		panic("httpapi: " + err.Error())
	}
}
