package intercept

import (
	"net/url"
	"strings"
	"unicode/utf16"
)

// encodings are how common encoders of forms, URLs, JSON, HTML and XML write a value. A host may use any of them for an
// echo.
var encodings = []func(string) string{
	url.QueryEscape, url.PathEscape,
	func(v string) string { return percent(v, "-_.!~*'()", "%20") },            // encodeURIComponent of ECMAScript
	func(v string) string { return percent(v, "*-._", "+") },                   // forms of the URL standard of WHATWG
	func(v string) string { return percent(v, "-_.~", "%20") },                 // RFC 3986: PHP's rawurlencode
	func(v string) string { return percent(v, "-_.~/", "%20") },                // Python's quote
	func(v string) string { return percent(v, "-_.!~*'();/?:@&=+$,#", "%20") }, // encodeURI of ECMAScript
	func(v string) string { return percent(v, "-_.~$&+,/:;=@", "%20") },        // Go's paths
	func(v string) string { return percent(v, "-_.", "+") },                    // PHP's urlencode
	func(v string) string { return percent(v, "-_.!*()", "+") },                // .NET
	func(v string) string { return percent(v, "-_.~!$&'()*+,;=:@/", "%20") },   // Java's paths
	// Paths and queries of the URL standard of WHATWG.
	func(v string) string { return percent(v, "-_.~!$&'()*+,;=:@/%[]|\\", "%20") },
	func(v string) string { return percent(v, "-_.~!$&()*+,;=:@/%[]|\\?^`{}", "%20") },
	escapeJSON,
	escapeASCII, // Python's json
	func(v string) string { return strings.ReplaceAll(escapeASCII(v), "/", `\/`) }, // PHP
	func(v string) string { return strings.ReplaceAll(escapeJSON(v), "/", `\/`) },  // with JSON_UNESCAPED_UNICODE
	func(v string) string { // PHP with JSON_HEX_TAG and the like, as Laravel
		return strings.NewReplacer("/", `\/`, `\"`, `\u0022`).Replace(escapeMore(escapeASCII(v), "<>&'"))
	},
	func(v string) string { return escapeMore(escapeJSON(v), "<>&") },   // Go
	func(v string) string { return escapeMore(escapeJSON(v), "<>&='") }, // Gson
	func(v string) string { return escapeMore(escapeASCII(v), "<>&'") }, // Flask
	func(v string) string { return escapeMore(escapeJSON(v), "<>/") },   // serialize-javascript
	func(v string) string { // .NET
		return strings.ReplaceAll(escapeMore(escapeASCII(v), "<>&'+`"), `\"`, `\u0022`)
	},
	markup(), markup(`"`, "&quot;"), // the text and the attributes of XML
	markup(`"`, "&quot;", "'", "&apos;"),
	markup(`"`, "&quot;", "'", "&#39;"),                                              // Ruby, .NET, lodash
	markup(`"`, "&quot;", "'", "&#039;"),                                             // PHP
	markup(`"`, "&quot;", "'", "&#x27;"),                                             // Python, Django, React
	markup(`"`, "&#34;", "'", "&#39;"),                                               // Go, Flask
	markup(`"`, "&#34;", "'", "&#39;", "+", "&#43;"),                                 // html/template of Go
	markup(`"`, "&quot;", "'", "&#x27;", "`", "&#x60;", "=", "&#x3D;"),               // Handlebars
	markup(`"`, "&quot;", "'", "&#39;", "`", "&#x60;", "=", "&#x3D;", "/", "&#x2F;"), // Mustache
}

// markup returns an encoder of HTML or XML, which also replaces some characters.
func markup(more ...string) func(string) string {
	return strings.NewReplacer(append([]string{"&", "&amp;", "<", "&lt;", ">", "&gt;"}, more...)...).Replace
}

const hexDigits = "0123456789abcdef"

// escaped returns a code unit of UTF-16 as JSON escapes it.
func escaped(c rune) string {
	return string([]byte{'\\', 'u', hexDigits[c>>12&15], hexDigits[c>>8&15], hexDigits[c>>4&15], hexDigits[c&15]})
}

// escapeMore also escapes some characters of ASCII in a text within a JSON string.
func escapeMore(text, characters string) string {
	for _, c := range characters {
		text = strings.ReplaceAll(text, string(c), escaped(c))
	}
	return text
}

// escapeASCII returns how encoders that write only ASCII do.
func escapeASCII(value string) string {
	var out strings.Builder
	for _, r := range escapeJSON(value) {
		switch {
		case r < 0x80:
			out.WriteRune(r)
		case r < 0x10000:
			out.WriteString(escaped(r))
		default:
			high, low := utf16.EncodeRune(r)
			out.WriteString(escaped(high) + escaped(low))
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
			out.Write([]byte{'%', hexDigits[c>>4], hexDigits[c&15]})
		}
	}
	return out.String()
}
