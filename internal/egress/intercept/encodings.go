package intercept

import (
	"net/url"
	"strconv"
	"strings"
	"unicode/utf16"
	"unicode/utf8"
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
	func(v string) string { return percent(v, "-_.~!$&'()*+,;=:@/%[]|\\?^{}#", "%20") }, // and fragments
	func(v string) string { return percent(v, "-_.~!$&'()*+,%", "%20") },                // and users and passwords
	func(v string) string { return percent(v, "-_.~$&+,;=", "%20") },                    // those of Go
	func(v string) string { return percent(v, "-_.!~*'();/?:@&=+$,[]", "%20") },         // Java's URI, Ruby's URI
	func(v string) string { return percent(v, "-_.~!#$%&'()*+,/:;=?@[]", "%20") },       // redirects of Django
	func(v string) string { return percent(v, "-_.~!$'()*+,;:@/?", "%20") },             // queries of Spring
	func(v string) string { return percent(v, "-_.~!$()*,;@", "%20") },                  // UrlEncoder of .NET
	func(v string) string { return percent(v, "-_.*+@/", "%20") },                       // escape of ECMAScript
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
	strings.NewReplacer("&", "&amp;", `"`, "&quot;").Replace,              // the attributes of HTML
	strings.NewReplacer("&", "&amp;", "<", "&lt;", `"`, "&quot;").Replace, // those of canonical XML
	references("&#", 10), references("&#", 10, `"`, "&quot;"), // ElementTree of Python, Java
	references("&#x", 16), references("&#x", 16, `"`, "&quot;"), // Ruby, PHP's DOM
	references("&#", 10, `"`, "&quot;", "'", "&#39;"),                  // .NET
	references("&#x", 16, `"`, "&quot;", "'", "&#x27;", "+", "&#x2B;"), // ASP.NET Core
	markup(`"`, "&quot;", "'", "&apos;"),
	markup(`"`, "&quot;", "'", "&#39;"),                                              // Ruby, .NET, lodash
	markup(`"`, "&quot;", "'", "&#039;"),                                             // PHP
	markup(`"`, "&quot;", "'", "&#x27;"),                                             // Python, Django, React
	markup(`"`, "&#34;", "'", "&#39;"),                                               // Go, Flask
	markup(`"`, "&#034;", "'", "&#039;"),                                             // JSTL
	markup(`"`, "&quot;", "'", "&#x27;", "/", "&#x2F;"),                              // Rack, Tera
	markup(`"`, "&quot;", "'", "&#39;", "/", "&#x2F;"),                               // Mustache of old
	markup(`"`, "&quot;", "'", "&#39;", "/", "&#47;"),                                // Dart
	markup(`"`, "&quot;", "'", "&#x27;", "`", "&#x60;"),                              // Underscore
	markup(`"`, "&#34;", "'", "&#39;", "+", "&#43;"),                                 // html/template of Go
	markup(`"`, "&quot;", "'", "&#x27;", "`", "&#x60;", "=", "&#x3D;"),               // Handlebars
	markup(`"`, "&quot;", "'", "&#39;", "`", "&#x60;", "=", "&#x3D;", "/", "&#x2F;"), // Mustache
}

// markup returns an encoder of HTML or XML, which also replaces some characters.
func markup(more ...string) func(string) string {
	return strings.NewReplacer(append([]string{"&", "&amp;", "<", "&lt;", ">", "&gt;"}, more...)...).Replace
}

// references is markup that also writes characters beyond ASCII by their numbers.
func references(begin string, base int, more ...string) func(string) string {
	encode := markup(more...)
	return func(value string) string {
		var out strings.Builder
		for _, r := range encode(value) {
			if r < utf8.RuneSelf {
				out.WriteByte(byte(r))
			} else {
				out.WriteString(begin + strconv.FormatInt(int64(r), base) + ";")
			}
		}
		return out.String()
	}
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
	var keeps [256]bool
	for _, c := range []byte(kept) {
		keeps[c] = true
	}
	out := make([]byte, 0, 3*len(value))
	for _, c := range []byte(value) {
		switch {
		case c == ' ':
			out = append(out, space...)
		case c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' || keeps[c]:
			out = append(out, c)
		default:
			out = append(out, '%', hexDigits[c>>4], hexDigits[c&15])
		}
	}
	return string(out)
}
