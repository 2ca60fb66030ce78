package answer

import (
	"bytes"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/largejson"
)

// FuzzAppendText: AppendText writes the same as the standard encoder.
func FuzzAppendText(f *testing.F) {
	f.Add([]byte("a\x00\x08\x0c\n\r\t\x1f \"\\/<>&\x7f€😀\u2028\u2029\ufffd"))
	f.Add([]byte("\xff\xe2\x82 \xed\xa0\x80\xf0\x9f\x98"))
	f.Fuzz(func(t *testing.T, text []byte) {
		var want bytes.Buffer
		largejson.Encode(&want, string(text))
		if got := AppendText([]byte("x"), text); string(got)+"\n" != "x"+want.String() {
			t.Errorf("%q became %s, want %s", text, got, want.Bytes())
		}
	})
}
