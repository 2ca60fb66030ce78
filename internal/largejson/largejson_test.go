package largejson

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"
)

// TestLayoutMap: the JSON of an object with long texts, bytes and JSON is that of encoding/json.
func TestLayoutMap(t *testing.T) {
	long := strings.Repeat("a€\x01<", longText)
	raw := json.RawMessage(`"` + strings.Repeat("<", 3*longText) + `"`)
	object := func() map[string]any {
		return map[string]any{"text": long, "bytes": []byte(long), "raw": raw, "short": "x", "none": nil,
			"more": map[string]any{"z": long[1:], "a": raw, "n": 1}}
	}
	var got, want bytes.Buffer
	Encode(&want, object())
	l, v := NewLayout(), object()
	l.Map(v)
	text := l.Around(v)
	if err := text.EncodeTo(&got); err != nil || !bytes.Equal(got.Bytes(), want.Bytes()) || len(text.long) != 5 {
		t.Errorf("%v, %d bytes differ from %d, %d long texts", err, got.Len(), want.Len(), len(text.long))
	}
	if text.Length() != int64(want.Len()) || text.Size() > int64(want.Len()) {
		t.Errorf("%d bytes of %d, %d held", text.Length(), want.Len(), text.Size())
	}
}
