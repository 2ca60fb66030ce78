package httpapi

import (
	"bytes"
	"encoding/json"
	"reflect"
)

// raw reads any JSON value as it is. httpd bounds its depth and the number of its values. A json.Decoder would hold
// several copies of it.
func (d *decoder) raw(v reflect.Value) error {
	d.space()
	text := d.data[d.pos : d.pos+extent(d.data[d.pos:])]
	if !json.Valid(text) {
		return d.fail("is not JSON")
	}
	d.pos += len(text)
	v.SetBytes(bytes.Clone(bytes.TrimSpace(text)))
	return nil
}

// extent returns the length of the JSON value at the start of a text. Of a text that does not start with JSON, it
// returns the length of a part that is not JSON.
func extent(text []byte) int {
	depth, quoted := 0, false
	for i := 0; i < len(text); i++ {
		c := text[i]
		switch {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '{' || c == '[':
			depth++
		case c == '}' || c == ']':
			depth--
		}
		switch {
		case quoted || depth > 0:
		case depth < 0, c == ',':
			return i
		case c == '"' || c == '}' || c == ']':
			return i + 1
		}
	}
	return len(text)
}
