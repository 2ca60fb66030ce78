package intercept

import (
	"encoding/json"
	"fmt"
	"net/url"
	"strings"
	"unicode/utf16"
)

// encodings are how common encoders of forms, URLs and JSON write a value. A host may use any of them for an echo.
var encodings = []func(string) string{
	url.QueryEscape, url.PathEscape,
	func(v string) string { return percent(v, "-_.!~*'()", "%20") }, // encodeURIComponent of ECMAScript
	func(v string) string { return percent(v, "*-._", "+") },        // forms of the URL standard of WHATWG
	escapeJSON,
	escapeASCII, // Python's json
	func(v string) string { return strings.ReplaceAll(escapeASCII(v), "/", `\/`) }, // PHP
	func(v string) string { return strings.ReplaceAll(escapeJSON(v), "/", `\/`) },  // PHP with JSON_UNESCAPED_UNICODE
	escapeHTML,
	func(v string) string { // Gson
		return strings.NewReplacer("=", `\u003d`, "'", `\u0027`).Replace(escapeHTML(v))
	},
}

// asLatin1 returns a value as a server reads it that takes the bytes of a header for Latin-1 (RFC 9112, section 2.2):
// Node, WSGI, Servlets. It is another text if the value has characters beyond ASCII.
func asLatin1(value string) string {
	var out strings.Builder
	for _, c := range []byte(value) {
		out.WriteRune(rune(c))
	}
	return out.String()
}

// escapeHTML returns how encoders that are safe for HTML write a value within a JSON string, such as Go's.
func escapeHTML(value string) string {
	text, _ := json.Marshal(value) // a string always has a JSON form
	return string(text[1 : len(text)-1])
}

// escapeASCII returns how encoders that write only ASCII do.
func escapeASCII(value string) string {
	var out strings.Builder
	for _, r := range escapeJSON(value) {
		switch {
		case r < 0x80:
			out.WriteRune(r)
		case r < 0x10000:
			fmt.Fprintf(&out, `\u%04x`, r)
		default:
			high, low := utf16.EncodeRune(r)
			fmt.Fprintf(&out, `\u%04x\u%04x`, high, low)
		}
	}
	return out.String()
}

// percent encodes all bytes but letters, digits, those of kept, and spaces.
func percent(value, kept, space string) string {
	var out strings.Builder
	for _, c := range []byte(value) {
		switch {
		case c == ' ':
			out.WriteString(space)
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || strings.IndexByte(kept, c) >= 0:
			out.WriteByte(c)
		default:
			fmt.Fprintf(&out, "%%%02X", c)
		}
	}
	return out.String()
}
