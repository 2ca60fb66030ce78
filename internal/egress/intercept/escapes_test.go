package intercept

import (
	"encoding/json"
	"html"
	"net/url"
	"strings"
	"testing"

	"github.com/fumehood-dev/fumehood/internal/egress/rules"
	"github.com/fumehood-dev/fumehood/sandbox"
)

// inJSON writes a text as json_encode of PHP does within a string.
func inJSON(text string) string {
	quoted, _ := json.Marshal(text) // a string always has a JSON form
	return strings.ReplaceAll(string(quoted[1:len(quoted)-1]), "/", `\/`)
}

// TestEscapes: a value is found whichever of its characters are escaped, and where an escape seems to be in it.
func TestEscapes(t *testing.T) {
	const value = `sk-Ab_c.9+/=&<'"\ %41\x41&amp;`
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: value, Placeholder: "<1>"}}})
	for name, text := range map[string]string{
		"Django's escapejs":       `sk\u002DAb_c.9+/\u003D\u0026\u003C\u0027\u0022\u005C %41\u005Cx41\u0026amp\u003B`,
		"a string of Go's pages":  `sk-Ab_c.9\u002b\/=\u0026\u003c\u0027\u0022\\ %41\\x41\u0026amp;`,
		"an attribute of Go":      `sk-Ab_c.9&#43;/&#61;&amp;&lt;&#39;&#34;\&#32;%41\x41&amp;amp;`,
		"Rust's NON_ALPHANUMERIC": `sk%2DAb%5Fc%2E9%2B%2F%3D%26%3C%27%22%5C%20%2541%5Cx41%26amp%3B`,
		"ASP's URLEncode":         `sk%2DAb%5Fc%2E9%2B%2F%3D%26%3C%27%22%5C+%2541%5Cx41%26amp%3B`,
		"a URL as it is":          `sk-Ab_c.9+/=&%3C'%22\%20%41\x41&amp;`,
		"Twig's js":               `sk\x2DAb_c.9\x2B\/\x3D\x26\x3C\x27\x22\x5C\x20\x2541\x5Cx41\x26amp\x3B`,
		"PHP's ENT_HTML5": `sk-Ab&lowbar;c&period;9&plus;&sol;&equals;&amp;&lt;&apos;&quot;&bsol; ` +
			`&percnt;41&bsol;x41&amp;amp&semi;`,
		"HTML without semicolons": `sk-Ab&#95c.9+/&#X3d&amp&LT'&quot\ %41\x41&amp;amp;`,
		"long numbers":            `sk-Ab&#x00000000005f;c.9&#0000000000043;/=&amp;&lt;'"\ %41\x41&amp;amp;`,
		"short octal numbers":     `sk\55Ab_c.9\53/=&\74'"\\\40%41\\x41&amp;`,
		"markup in markup":        `sk-Ab_c.9+/=&amp;&lt;&#039;&quot;\ %41\x41&amp;`,
		"Python's repr":           `sk-Ab_c.9+/=&<\'"\\ %41\\x41&amp;`,
		"C with octal numbers":    `sk\055Ab_c.9+/=&<'\"\\ %41\\x41&amp;`,
		"all, in JSON":            `\u0073\u006b` + value[2:8] + `\u{39}\U0000002b\/=&<'\"\\ %41\\x41&amp;`,
	} {
		for _, before := range []string{"", `\\`, "%", "&#", `\\` + strings.Repeat(`\\`, maxHeld)} {
			whole := before + text + "\n"
			for _, size := range []int{len(whole), 7, 4999} {
				got := strings.Join(pieces(f, append(chunks(whole, size), "")...), "")
				left, hidden := strings.CutSuffix(got, "<1>\n")
				// Two backslashes may be the begin of an escape in an escape.
				if !hidden || !strings.HasPrefix(before, left) || len(left)+2 < len(before) {
					t.Errorf("%s, in pieces of %d: %.200q", name, size, got[max(0, len(got)-200):])
				}
			}
		}
	}
}

// TestNamesOfHTML: a value is found whose characters have names of HTML, one name for two characters included.
func TestNamesOfHTML(t *testing.T) {
	const value = "abcfj|`fj"
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: value, Placeholder: "<1>"}}})
	for _, text := range []string{"abc&fjlig;&vert;&grave;&fjlig;", "abcfj&VerticalLine;&DiacriticalGrave;fj"} {
		for _, size := range []int{1, 5, len(text)} {
			if got := strings.Join(pieces(f, append(chunks(text, size), "")...), ""); got != "<1>" {
				t.Errorf("%s, in pieces of %d: %s", text, size, got)
			}
		}
	}
}

// TestLongEscapes: a value is found in a text as long as a pattern may be, however few characters the value has.
func TestLongEscapes(t *testing.T) {
	const escape = "%26%23x41%3B"
	for n := 100; n*len(escape) <= maxPattern; n += 100 {
		f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: strings.Repeat("A", n), Placeholder: "<1>"}}})
		text := strings.Repeat(escape, n)
		for _, size := range []int{cleanSize, 999} {
			if got := strings.Join(pieces(f, append(chunks(text, size), "")...), ""); got != "<1>" {
				t.Errorf("%d characters, in pieces of %d: %d bytes remain", n, size, len(got))
			}
		}
	}
}

// TestEscapesInEscapes: a value is found in a text that is escaped twice, such as a URL in JSON.
func TestEscapesInEscapes(t *testing.T) {
	const value = `ab/cd+e&f==;"<{n'`
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: value, Placeholder: "<1>"}}})
	encoders := map[string]func(string) string{"path": url.PathEscape, "form": url.QueryEscape, "JSON": inJSON,
		"HTML": html.EscapeString}
	for inside, first := range encoders {
		for outside, second := range encoders {
			text := second("x: " + first(value))
			if got := strings.Join(pieces(f, text, ""), ""); got != second("x: ")+"<1>" {
				t.Errorf("%s in %s: %s became %s", inside, outside, text, got)
			}
		}
	}
}

// TestBackslashesBefore: a value is found behind any number of backslashes that are escaped twice.
func TestBackslashesBefore(t *testing.T) {
	const value = `nab/cdef&gh`
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: value, Placeholder: "<1>"}}})
	attribute := func(text string) string { return strings.ReplaceAll(inJSON(text), `\`, "&#x5C;") }
	for _, encode := range []func(string) string{attribute, func(text string) string { return inJSON(inJSON(text)) }} {
		for n := range 12 {
			before := encode(strings.Repeat(`\`, maxHeld/4+n))
			for _, size := range []int{1 << 20, 5000 + n} {
				got := strings.Join(pieces(f, append(chunks(before+encode(value), size), "")...), "")
				if got != before+"<1>" {
					t.Fatalf("%d, in pieces of %d: %.99q", n, size, got[len(before)-8:])
				}
			}
		}
	}
}

// TestPercentBefore: a value is found behind a percent sign that an encoder of URLs leaves as it is, since an escape
// seems to begin there. Code can send one before its placeholder.
func TestPercentBefore(t *testing.T) {
	f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: `4bCdef{ghi}j`, Placeholder: "<1>"}}})
	for _, before := range []string{"%", "%4", "%u20a", "%25"} {
		text := "/login?" + before + `4bCdef%7Bghi%7Dj` // as Express and WHATWG write a redirect
		for _, text := range []string{text, inJSON(text), url.QueryEscape(text)} {
			got := strings.Join(pieces(f, text, ""), "")
			if strings.Contains(got, "bCdef") || strings.Contains(got, "4b") {
				t.Errorf("%s became %s", text, got)
			}
		}
	}
}

// TestKeptEscapes: a value is found if its end begins an escape that an encoder keeps, with digits that code sends
// behind its placeholder, and if it contains an escape itself.
func TestKeptEscapes(t *testing.T) {
	for value, texts := range map[string][]string{
		`ab{cdef}gh%`:   {`ab%7Bcdef%7Dgh%11`, `ab%7Bcdef%7Dgh%u20ac`, `ab%7Bcdef%7Dgh%25`},
		`ab{cdef}gh%e`:  {`ab%7Bcdef%7Dgh%e9`},
		`4b{cde%3d}gh-`: {`%4b%7Bcde%3d%7Dgh-`},
		`4b{cdefg}gh-%`: {`%4b%7Bcdefg%7Dgh-%44`},
		`ab"cdefgh&l`:   {`ab&quot;cdefgh&lt;`},
	} {
		f := newFinder([]rules.Secret{{Secret: sandbox.Secret{Value: value, Placeholder: "<1>"}}})
		for _, text := range texts {
			for _, encode := range []func(string) string{strings.Clone, inJSON, url.QueryEscape} {
				if got := strings.Join(pieces(f, encode("x="+text), ""), ""); got != encode("x=")+"<1>" {
					t.Errorf("%s: %s became %s", value, encode(text), got)
				}
			}
		}
	}
}
