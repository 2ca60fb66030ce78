package toolcall

import (
	"bytes"
	"encoding/json"
	"fmt"
	"unicode/utf8"
)

// Limits of one JSON value.
const (
	MaxArguments = 1 << 20 // bytes of the arguments of one call
	MaxAnswer    = 8 << 20 // bytes of one answer
	MaxDepth     = 64
	MaxValues    = 100_000
)

// measure checks the bounds of JSON text without decoding it. It counts brackets and commas outside of strings, so text
// that is not JSON passes. It returns how many values there are at most.
func measure(text []byte, most int) (values int, err error) {
	if len(text) > most {
		return 0, fmt.Errorf("have %d bytes; at most %d are allowed", len(text), most)
	}
	if !utf8.Valid(text) {
		return 0, fmt.Errorf("are not UTF-8")
	}
	depth, quoted := 0, false
	values = 1
	for i := 0; i < len(text); i++ {
		switch c := text[i]; {
		case quoted && c == '\\':
			i++
		case c == '"':
			quoted = !quoted
		case quoted:
		case c == '[', c == '{':
			values++
			if depth++; depth > MaxDepth {
				return 0, fmt.Errorf("are nested more than %d deep", MaxDepth)
			}
		case c == ']', c == '}':
			depth--
		case c == ',':
			values++
		}
	}
	if values > MaxValues {
		return 0, fmt.Errorf("have more than %d values", MaxValues)
	}
	return values, nil
}

// canonical decodes one JSON value and encodes it anew. Numbers keep their digits.
func canonical(text []byte) ([]byte, error) {
	d := json.NewDecoder(bytes.NewReader(text))
	d.UseNumber()
	var value any
	if err := d.Decode(&value); err != nil {
		return nil, fmt.Errorf("are not JSON: %w", err)
	}
	if d.InputOffset() < int64(len(bytes.TrimRight(text, " \t\r\n"))) {
		return nil, fmt.Errorf("are not one JSON value")
	}
	var out bytes.Buffer
	e := json.NewEncoder(&out)
	e.SetEscapeHTML(false)
	if err := e.Encode(value); err != nil {
		return nil, err
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n")), nil
}
